// print server: opens its spool module and goes about its own (flat) business
#include "work.h"
#include <dlfcn.h>
int main(void) {
    nap(1500);
    void *h = dlopen("bin/mod_spool.so", RTLD_NOW | RTLD_LOCAL);
    if (!h)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    ((int (*)(void))dlsym(h, "module_start"))();
    double t0 = now();
    while (now() - t0 < RUN_LIMIT) {
        bystanders(60);
        truth();
        nap(10);
    }
    return 0;
}
