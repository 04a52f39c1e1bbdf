// 8 threads all in accept() on one socket; a file mapping of 96 MiB. fault: evict
#include "ex.h"
#define SZ ((size_t)96 << 20)
static int l, mf;
static unsigned char *m;
NOINL uint64_t corbel_scan_postings(uint64_t id) {
    uint64_t x = id * 2654435761u | 1, s = 0;
    for (int i = 0; i < 700; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        s += m[(x % (SZ / 4096)) * 4096];
    }
    ex_sink += s;
    return s;
}
NOINL void corbel_forget(void) {
    madvise(m, SZ, MADV_DONTNEED);
    posix_fadvise(mf, 0, 0, POSIX_FADV_DONTNEED);
    ex_sink++;
}
static void *acc(void *v) {
    (void)v;
    ex_name("crb-acc");
    for (;;) {
        int s = accept(l, 0, 0);
        if (s < 0)
            continue;
        struct exreq q;
        if (!ex_full(s, &q, sizeof q, 0)) {
            EX_BURN_US(O.work_us);
            corbel_scan_postings(q.id);
            ex_full(s, &q, sizeof q, 1);
        }
        close(s);
    }
    return 0;
}
int main(int c, char **v) {
    ex_args(c, v, 21070, 120, 200, 8);
    ex_bigfile("corbel.map", 96);
    mf = ex_file("corbel.map", O_RDONLY);
    m = mmap(0, SZ, PROT_READ, MAP_SHARED, mf, 0);
    madvise(m, SZ, MADV_RANDOM);
    for (size_t i = 0; i < SZ; i += 4096)
        ex_sink += m[i];
    l = ex_listen(O.port);
    for (int i = 0; i < 8; i++)
        ex_thread(acc, 0);
    ex_load("conn", 0, 0);
    for (;;) {
        ex_sleep_ms(2500);
        if (ex_is("evict"))
            corbel_forget();
    }
}
