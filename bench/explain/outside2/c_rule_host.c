// mail filter host: opens its rule plugin 8 s after the start (with --deep: RTLD_DEEPBIND, so the plugin is bound to libc's own malloc)
#define _GNU_SOURCE
#include "util.h"
#include <dlfcn.h>
#include <libgen.h>
int main(int argc, char **argv) {
    static char *mail[4000];
    char path[4200];
    double t0 = now();
    int deep = argc > 1 && !strcmp(argv[1], "--deep");
    void (*run)(unsigned) = 0;
    long (*lost)(void) = 0;
    ssize_t k = readlink("/proc/self/exe", path, 4000);
    path[k] = 0;
    strcat(dirname(path), "/plug_rules.so");
    for (int i = 0; i < 4000; i++)
        memset(mail[i] = malloc(8000), 1, 8000);
    while (now() - t0 < RUN_LIMIT) {
        if (!run && now() - t0 > 8) {
            void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL | (deep ? RTLD_DEEPBIND : 0));
            if (!h) {
                fputs(dlerror(), stderr);
                return 1;
            }
            run = (void (*)(unsigned))dlsym(h, "filter_run");
            lost = (long (*)(void))dlsym(h, "filter_lost");
        }
        for (int i = 0; i < 8; i++) {
            unsigned m = rnd() % 4000;
            free(mail[m]);
            memset(mail[m] = malloc(8000), 2, 8000);
            if (run)
                run(m);
        }
        if (lost)
            lost_ = lost();
        truth();
        nap(25);
    }
    return 0;
}
