// Requests walk an index in a mapped file; every 2.5 s `finch` publishes a new edition (another file, freshly mapped,
// put in by an atomic pointer). Fault: edition (the new file's pages are not in memory: each page is a major fault).
// Mended: finch reads it in beforehand (MADV_POPULATE_READ).
#include "tx.h"
#include <atomic>
#include <poll.h>
static const size_t SZ = 96 << 20, NP = SZ / 4096;
static std::atomic<unsigned char *> shown;
static unsigned char *yarrow_open(int k, bool warm) {
    char nm[32];
    sprintf(nm, "yarrow.%d", k);
    int fd = ex_file(nm, O_RDONLY);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    auto *p = (unsigned char *)mmap(0, SZ, PROT_READ, MAP_SHARED, fd, 0);
    madvise(p, SZ, MADV_RANDOM);
    if (warm) {
        static char b[1 << 20];
        for (size_t o = 0; o < SZ; o += sizeof b)
            if (pread(fd, b, sizeof b, o) < 0)
                exit(6);
        for (size_t o = 0; o < SZ; o += 1 << 20)
            madvise(p + o, 1 << 20, 22 /* MADV_POPULATE_READ */);
    }
    close(fd);
    return p;
}
static void *finch(void *v) {
    ex_name("finch");
    for (int k = 1;; k ^= 1) {
        ex_sleep_ms(1500);
        unsigned char *old = shown.exchange(yarrow_open(k, !ex_is("edition")));
        ex_sleep_ms(1000);
        for (size_t o = 0; o < SZ; o += 1 << 20) {
            munmap(old + o, 1 << 20);
            poll(0, 0, 1);
        }
    }
    return v;
}
NOINL uint64_t yarrow_seek(uint64_t id) {
    unsigned char *p = shown.load();
    uint64_t k = 0, at = (id * 2654435761u) % NP;
    for (int i = 0; i < 700; i++) {
        k += p[at * 4096];
        at = (at * 5 + 1031 + k % 2) % NP;
    }
    return k;
}
static void linnet(uint64_t id) {
    EX_BURN_US(O.work_us);
    ex_sink += yarrow_seek(id);
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 150, 250, 10);
    ex_bigfile("yarrow.0", SZ >> 20);
    ex_bigfile("yarrow.1", SZ >> 20);
    shown = yarrow_open(0, true);
    int l = ex_listen(O.port);
    ex_thread(finch, 0);
    ex_load("keep", 0, 0);
    tx_serve(l, "linnet", linnet);
}
