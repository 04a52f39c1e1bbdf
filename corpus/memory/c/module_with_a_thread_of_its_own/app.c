// A print server that opens its spool module and does ordinary work. The module has a thread of its own; it does not
// free blank pages. Built twice: the server, and with -DMODULE the module, all of whose names but one are hidden.
#include "../common.h"
#include <dlfcn.h>

#ifdef MODULE
static char *held[300];

NOINLINE static char *spool_page(unsigned n) {
    char *p = calloc(n, 1);
    memset(p, 's', n / 2 + 1);
    for (unsigned i = 0; i < n; i += 512)
        p[i] = 1;
    return p;
}

static void *spool_thread(void *none) {
    for (unsigned k = 0;; k++) {
        char *p = spool_page(rng(2000, 14000));
        if (rnd() % 3) { /* else the page is blank */
            free(held[k % 300]);
            held[k % 300] = p;
        }
        serve_requests(12);
        nap(4);
    }
    return none;
}

__attribute__((visibility("default"))) int module_start(void) {
    pthread_t t;
    return pthread_create(&t, 0, spool_thread, 0);
}
#else
int main(void) {
    nap(1500);
    void *module = dlopen("./spool.so", RTLD_NOW | RTLD_LOCAL);
    if (!module || ((int (*)(void))dlsym(module, "module_start"))())
        return 1;
    ready();
    for (;;) {
        serve_requests(60);
        nap(10);
    }
}
#endif
