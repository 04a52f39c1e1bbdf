// glibc with one arena: requests malloc and free some KB; `tern` builds ~1.6 GB of 256 KB blocks and gives them back.
// fault: trim (M_TRIM_THRESHOLD small: the last free() of tern gives all of it back by brk under the arena lock).
// Mended: high threshold, the heap keeps it.
#include "ox.h"
#include <limits.h>
#include <malloc.h>
#include <sys/epoll.h>
#define NB 6400
static char *rock[NB];
NOINL void skerry_ebb(void) {
    for (int i = 0; i < NB; i++)
        free(rock[i]);
    ex_sink++;
}
static void *tern(void *v) {
    ex_name("tern");
    for (;;) {
        for (int i = 0; i < NB; i++) {
            rock[i] = malloc(256 << 10);
            for (int j = 0; j < 256 << 10; j += 4096)
                rock[i][j] = i;
            if (i % 4 == 0)
                ex_sleep_ms(0.5);
        }
        ex_sleep_ms(300);
        skerry_ebb();
    }
    return v;
}
NOINL void splash(uint64_t id) {
    char *p[4];
    for (int i = 0; i < 4; i++) {
        size_t n = 3000 + (id * 37 + i * 5333) % 20000;
        p[i] = malloc(n);
        memset(p[i], i, n / 4);
    }
    EX_BURN_US(O.work_us);
    for (int i = 0; i < 4; i++)
        free(p[i]);
}
static void *seal(void *v) {
    int s = (long)v;
    ex_name("seal");
    ex_nodelay(s);
    struct exreq q;
    while (!ex_full(s, &q, sizeof q, 0)) {
        splash(q.id);
        if (ex_full(s, &q, sizeof q, 1))
            break;
    }
    close(s);
    return 0;
}
int main(int c, char **v) {
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
    mallopt(M_TOP_PAD, 8 << 20);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    ex_args(c, v, 21000, 200, 250, 8);
    mallopt(M_TRIM_THRESHOLD, ex_is("trim") ? 32 << 20 : INT_MAX);
    int l = ex_listen(O.port);
    ex_thread(tern, 0);
    ex_load("keep", 0, 0);
    for (;;)
        pthread_detach(ex_thread(seal, (void *)(long)accept(l, 0, 0)));
}
