// Opens and closes a library over and over, with blocks from its code still live, and others opened in its place.
#include "truth.h"
#include <dlfcn.h>
#include <pthread.h>

static int stop;

static void *churn(void *argument) {
    (void)argument;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) free(malloc(2500));
    return NULL;
}

int main(int argc, char **argv) {
    MUST(argc > 1);
    static void *kept[4000];
    int count = 0;
    pthread_t other;
    pthread_create(&other, NULL, churn, NULL);
    mark();
    for (int round = 0; round < 200; round++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        MUST(library);
        void *(*take)(size_t) = (void *(*)(size_t))dlsym(library, "plugin_take");
        MUST(take);
        for (int block = 0; block < 20; block++) kept[count++] = took(take(3000));
        MUST(dlclose(library) == 0);
        if (round % 50 == 0) {
            void *mathematics = dlopen("libm.so.6", RTLD_NOW);
            MUST(mathematics);
            dlclose(mathematics);
        }
    }
    // An error of dlsym is the program's own.
    dlerror();
    MUST(!dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere") && strstr(dlerror(), "no_such_symbol_anywhere"));
    MUST(!dlerror());
    for (int at = 0; at < count; at += 2) free(gives(kept[at]));
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    mark();
    return 0;
}
