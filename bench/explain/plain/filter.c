// A plugin, and with -DHOST the program that opens it: the plugin allocates by the host's function and loses it.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HOST
__attribute__((noinline)) void *host_alloc(size_t n) { return malloc(n); }
static void *slots[1000];
int main(int count, char **words) {
    void *plugin = count > 1 ? dlopen(words[1], RTLD_NOW) : NULL;
    void (*apply)(void *(*)(size_t), int) = plugin ? dlsym(plugin, "filter_apply") : NULL;
    if (!apply) return puts("no plugin"), 1;
    for (int n = 0;; n++) {
        apply(host_alloc, n);
        for (int i = 0; i < 20; i++) { int at = rand() % 1000; free(slots[at]); slots[at] = host_alloc(100 + rand() % 900); }
        if (n % 5 == 0) usleep(8000);
    }
}
#else
__attribute__((noinline)) void filter_apply(void *(*alloc)(size_t), int n) { char *row = alloc(800); memset(row, n, 800); if (n % 4 == 0) free(row); }
#endif
