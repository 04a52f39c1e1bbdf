// a thread per connection, each with its own open file; every request appends a record under a file lock.
// faults: ofd (thread vane holds an OFD lock over ~150 ms of O_DIRECT reads), other (another process, `exload keeper`,
// holds flock over ~170 ms of fsyncs). Mended: vane reads and keeper writes with no lock on that file.
#include "ox.h"
#include <sys/file.h>
static int big;
static uint64_t seen;
HELP void hold(int fd, int on) {
    if (ex_is("ofd")) {
        struct flock f = {.l_type = on ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
        while (fcntl(fd, on ? F_OFD_SETLKW : F_OFD_SETLK, &f) && errno == EINTR)
            ;
    } else
        while (flock(fd, on ? LOCK_EX : LOCK_UN) && errno == EINTR)
            ;
}
NOINL void stoa_walk_columns(void *buf) {
    seen += ex_direct_some(big, 150, buf, 4096, 64 << 20);
}
NOINL void enter(int fd, struct exreq *q) {
    hold(fd, 1);
    if (pwrite(fd, q, sizeof *q, (q->id % 4096) * sizeof *q) < 0)
        seen++;
    hold(fd, 0);
}
static void *vane(void *v) {
    ex_name("vane");
    int fd = ex_file("porch.dat", O_RDWR);
    void *buf;
    if (posix_memalign(&buf, 4096, 4096))
        return 0;
    for (;;) {
        ex_sleep_ms(2650);
        if (ex_is("ofd"))
            hold(fd, 1);
        stoa_walk_columns(buf);
        if (ex_is("ofd"))
            hold(fd, 0);
    }
    return v;
}
static void *usher(void *v) {
    int s = (long)v, fd = ex_file("porch.dat", O_RDWR);
    ex_name("usher");
    ex_nodelay(s);
    struct exreq q;
    while (!ex_full(s, &q, sizeof q, 0)) {
        EX_BURN_US(O.work_us);
        enter(fd, &q);
        if (ex_full(s, &q, sizeof q, 1))
            break;
    }
    close(s);
    close(fd);
    return 0;
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 140, 300, 10);
    int l = ex_listen(O.port);
    ex_bigfile("stoa.big", 64);
    big = ex_file("stoa.big", O_RDONLY | O_DIRECT);
    close(ex_file("porch.dat", O_RDWR));
    close(ex_file("elsewhere.dat", O_RDWR));
    char p[512];
    snprintf(p, sizeof p, "%s/%s", O.dir, ex_is("other") ? "porch.dat" : "elsewhere.dat");
    ox_spawn(0, 0, "keeper", p, "170", "2700");
    ex_thread(vane, 0);
    ex_load("keep", 0, 0);
    for (;;)
        pthread_detach(ex_thread(usher, (void *)(long)accept(l, 0, 0)));
}
