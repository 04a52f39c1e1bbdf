// glibc's heap with two arenas, requests malloc and free. `stoat` builds ~500 MB of 12 KB blocks and frees 7 of 8. Fault:
// after (every ~3 s a request ends with malloc_trim(0), as after a large job; all who allocate from that arena wait).
// Mended: stoat has a mapping of its own and gives back its pages itself.
#include "tx.h"
#include <malloc.h>
#define NB 42000
static char *block[NB];
static volatile int due;
NOINL int sorrel_after(void) {
    int r = malloc_trim(0);
    ex_sink += r;
    return r + 1;
}
static void *stoat(void *v) {
    ex_name("stoat");
    char *own = ex_is("after") ? 0 : (char *)mmap(0, (size_t)NB * 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (;;) {
        double t = ex_now();
        for (int i = 0; i < NB; i++) {
            block[i] = own ? own + (size_t)i * 12288 : (char *)malloc(12240);
            for (int j = 16; j < 12240; j += 4096)
                block[i][j] = i;
            if (i % 100 == 0)
                ex_sleep_ms(2);
        }
        for (int i = 0; i < NB && !own; i++)
            if (i % 8) {
                free(block[i]);
                if (i % 200 == 1)
                    ex_sleep_ms(1);
            }
        t = t + 2.6 - ex_now();
        if (t > 0)
            ex_sleep_ms(t * 1e3);
        if (own)
            for (int i = 0; i < NB; i += 84)
                madvise(own + (size_t)i * 12288, 84 * 12288, MADV_DONTNEED);
        else
            due = 1;
        ex_sleep_ms(400);
        for (int i = 0; i < NB && !own; i += 8) {
            free(block[i]);
            if (i % 400 == 0)
                ex_sleep_ms(1);
        }
    }
    return v;
}
NOINL void sorrel_answer(uint64_t id) {
    char *p[5];
    for (int i = 0; i < 5; i++) {
        size_t n = 2500 + (id * 41 + i * 3331) % 16000;
        p[i] = (char *)malloc(n);
        memset(p[i], i, n / 4);
    }
    EX_BURN_US(O.work_us);
    for (int i = 0; i < 5; i++)
        free(p[i]);
    if (due && __atomic_exchange_n(&due, 0, __ATOMIC_ACQ_REL))
        sorrel_after();
}
int main(int c, char **v) {
    mallopt(M_ARENA_MAX, 2);
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
    mallopt(M_TRIM_THRESHOLD, 2047 << 20);
    mallopt(M_TOP_PAD, 32 << 20);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    ex_args(c, v, 21000, 200, 250, 8);
    int l = ex_listen(O.port);
    ex_thread(stoat, 0);
    ex_load("keep", 0, 0);
    tx_serve(l, "weasel", sorrel_answer);
}
