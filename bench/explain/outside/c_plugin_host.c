// host with two dlopened filters, reloaded every 25 s
#include "util.h"
#include <dlfcn.h>
#include <libgen.h>
typedef char *(*filt)(const char *, size_t, size_t *);
int main(int c, char **v) {
    (void)c;
    double t0 = now(), lr = t0;
    char dir[4096];
    ssize_t n = readlink("/proc/self/exe", dir, 4000);
    dir[n] = 0;
    strcpy(dir, dirname(dir));
    char p[2][4200];
    snprintf(p[0], 4200, "%s/plug_upper.so", dir);
    snprintf(p[1], 4200, "%s/plug_rewrite.so", dir);
    void *h[2];
    filt f[2];
    for (int i = 0; i < 2; i++) {
        h[i] = dlopen(p[i], RTLD_NOW);
        if (!h[i]) {
            puts(dlerror());
            return 1;
        }
        f[i] = (filt)dlsym(h[i], "plugin_filter");
    }
    char *keep[500] = {0};
    while (now() - t0 < RUN_LIMIT) {
        if (now() - lr > 25) {
            lr = now();
            for (int i = 0; i < 2; i++) {
                dlclose(h[i]);
                h[i] = dlopen(p[i], RTLD_NOW);
                f[i] = (filt)dlsym(h[i], "plugin_filter");
            }
        }
        for (int k = 0; k < 3; k++) {
            size_t m = rng(3000, 20000), o;
            char *d = malloc(m);
            memset(d, 'a' + rnd() % 26, m);
            char *a = f[0](d, m, &o);
            free(d);
            size_t o2;
            char *b = f[1](a, o, &o2);
            free(a);
            int i = rnd() % 500;
            free(keep[i]);
            keep[i] = b;
        }
        nap(12);
    }
    return 0;
}
