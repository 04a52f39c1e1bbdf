// A plugin that loses what it is given, and its host: cc -shared -DPLUGIN gives the one, cc the other.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef PLUGIN
static void *volatile last;
__attribute__((noinline)) void measure_tick(int size) { char *note = malloc(size); memset(note, 1, size); last = note; }
void plugin_run(void) { for (int i = 0; i < 10; i++) measure_tick(800); }
#else
// words: PLUGIN once|again. "again" opens and closes it for every use.
int main(int count, char **words) {
    void *held[300] = {0};
    sleep(4);
    void *library = NULL;
    for (unsigned turn = 0; count > 2; turn++) {
        if (!library) library = dlopen(words[1], RTLD_NOW);
        if (!library) return 1;
        ((void (*)(void))dlsym(library, "plugin_run"))();
        if (!strcmp(words[2], "again")) { dlclose(library); library = NULL; }
        for (int i = 0; i < 100; i++) { int at = (turn * 7 + i * 13) % 300; free(held[at]); held[at] = memset(malloc(50 + i * 9), 1, 50); }
        usleep(40000);
    }
    return 2;
}
#endif
