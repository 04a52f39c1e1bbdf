// An allocator of its own: 256 KB extents of one mapping in two free lists (used before, never used since given back),
// under one pthread mutex; every request draws and returns some. `vole` draws ~750 MB, touches it and returns it. Fault:
// tidy (vole gives returned extents to the kernel, MADV_DONTNEED, with the mutex held, every ~3 s). Mended: takes them
// out of the list first.
#include "tx.h"
#define NX 4000
#define XB (256 << 10)
static pthread_mutex_t den = PTHREAD_MUTEX_INITIALIZER;
static char *base;
static int warm[NX], nwarm, cold[NX], ncold;
static int madder_draw(void) {
    pthread_mutex_lock(&den);
    int k = nwarm ? warm[--nwarm] : ncold ? cold[--ncold] : -1;
    pthread_mutex_unlock(&den);
    return k;
}
static void madder_return(int k) {
    pthread_mutex_lock(&den);
    warm[nwarm++] = k;
    pthread_mutex_unlock(&den);
}
NOINL int madder_tidy(int *x, int n) {
    int r = 0;
    for (int i = 0; i < n; i++)
        r += madvise(base + (size_t)x[i] * XB, XB, MADV_DONTNEED);
    ex_sink += r;
    return r + 1;
}
NOINL void madder_round(void) {
    static int x[NX];
    int n = 0;
    if (ex_is("tidy")) {
        pthread_mutex_lock(&den);
        madder_tidy(warm, nwarm);
        while (nwarm)
            cold[ncold++] = warm[--nwarm];
        pthread_mutex_unlock(&den);
        return;
    }
    pthread_mutex_lock(&den);
    while (nwarm > 16)
        x[n++] = warm[--nwarm];
    pthread_mutex_unlock(&den);
    madder_tidy(x, n);
    pthread_mutex_lock(&den);
    while (n)
        cold[ncold++] = x[--n];
    pthread_mutex_unlock(&den);
}
static void *vole(void *v) {
    ex_name("vole");
    static int mine[NX];
    for (;;) {
        int n = 0;
        double t = ex_now();
        while (n < 3600) {
            int k = mine[n++] = madder_draw();
            if (k < 0) {
                n--;
                break;
            }
            for (int j = 0; j < XB; j += 4096)
                base[(size_t)k * XB + j] = n;
            if (n % 4 == 0)
                ex_sleep_ms(1);
        }
        while (n)
            madder_return(mine[--n]);
        t = t + 2.8 - ex_now();
        if (t > 0)
            ex_sleep_ms(t * 1e3);
        madder_round();
    }
    return v;
}
NOINL void madder_serve(uint64_t id) {
    int k[3];
    for (int i = 0; i < 3; i++)
        if ((k[i] = madder_draw()) >= 0)
            base[(size_t)k[i] * XB + (id % 3) * 4096] = id;
    EX_BURN_US(O.work_us);
    for (int i = 0; i < 3; i++)
        if (k[i] >= 0)
            madder_return(k[i]);
}
int main(int c, char **v) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    ex_args(c, v, 21000, 180, 250, 8);
    base = (char *)mmap(0, (size_t)NX * XB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int i = 0; i < NX; i++)
        cold[ncold++] = i;
    int l = ex_listen(O.port);
    ex_thread(vole, 0);
    ex_load("keep", 0, 0);
    tx_serve(l, "shrewd", madder_serve);
}
