// A plugin that loses what it takes, opened by another name each time; behind each name a pipe is left that nobody
// writes, so that whoever opens the file for its symbols waits for ever. First argument: the plugin.
//   gcc -g -O1 -fno-inline pipe.c -ldl -o pipe;  gcc -g -O1 -fno-inline -shared -fPIC -DPLUGIN pipe.c -o pipe.so
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef PLUGIN
static void *volatile taken;
__attribute__((noinline)) void take(void) { taken = memset(malloc(3000), 1, 3000); }
#else
int main(int count, char **words) {
    for (int n = 0; count > 1; n++) {
        char name[4096];
        snprintf(name, sizeof name, "%s.%d", words[1], n % 2);
        unlink(name);
        if (link(words[1], name)) return 1;
        void *plugin = dlopen(name, RTLD_NOW);
        void (*take)(void) = plugin ? (void (*)(void))dlsym(plugin, "take") : NULL;
        unlink(name);
        if (!take || mkfifo(name, 0600)) return 1;
        for (int i = 0; i < 10; i++) take();
        dlclose(plugin);
        usleep(20000);
    }
    return 2;
}
#endif
