// Eight threads accept for themselves, a connection per request. Faults: append (every twelfth request writes 160 records
// to an O_DSYNC file of its own: write() waits for the disk, no fsync call), settle (every request takes the gate, a
// pthread mutex, and whoever gets it makes durable what has come so far; each 2.2 s a new segment: ~130 ms of small
// fdatasyncs, gate held). Mended: requests wait on a condvar for `teal`, which syncs with the gate free; segments are
// prepared by `wigeon`, little by little.
#include "../outside/ex.h"
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t come = PTHREAD_COND_INITIALIZER, gone = PTHREAD_COND_INITIALIZER;
static uint64_t seq, safe;
static int l, log_, seg;
static double turn;
NOINL int burdock_append(int fd, int n) {
    char b[512];
    memset(b, 'r', sizeof b);
    int k = 0;
    for (int i = 0; i < n; i++)
        k += pwrite(fd, b, sizeof b, (i % 64) * 512) > 0;
    ex_sink += k;
    return k + 1;
}
NOINL int burdock_segment(int fd, double ms) {
    double e = ex_now() + ms / 1e3;
    char b[2048] = {1};
    int n = 0;
    for (; ex_now() < e; n++)
        if (pwrite(fd, b, sizeof b, (n % 512) * 4096) < 0 || fdatasync(fd))
            break;
    ex_sink += n;
    return n + 1;
}
NOINL void burdock_settle(void) {
    uint64_t my = __atomic_add_fetch(&seq, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&gate);
    if (safe < my) {
        uint64_t w = __atomic_load_n(&seq, __ATOMIC_RELAXED);
        burdock_append(log_, 1);
        if (ex_now() > turn) {
            burdock_segment(seg, 130);
            turn = ex_now() + 2.07;
        }
        safe = w;
    }
    pthread_mutex_unlock(&gate);
}
NOINL void burdock_await(void) {
    pthread_mutex_lock(&gate);
    uint64_t my = ++seq;
    pthread_cond_signal(&come);
    while (safe < my)
        pthread_cond_wait(&gone, &gate);
    pthread_mutex_unlock(&gate);
}
static void *teal(void *v) {
    ex_name("teal");
    for (;;) {
        pthread_mutex_lock(&gate);
        while (safe == seq)
            pthread_cond_wait(&come, &gate);
        uint64_t w = seq;
        pthread_mutex_unlock(&gate);
        burdock_append(log_, 1);
        pthread_mutex_lock(&gate);
        safe = w;
        pthread_cond_broadcast(&gone);
        pthread_mutex_unlock(&gate);
    }
    return v;
}
static void *wigeon(void *v) {
    ex_name("wigeon");
    for (;;) {
        ex_sleep_ms(14);
        burdock_segment(seg, 0.8);
    }
    return v;
}
static void *coot(void *v) {
    ex_name("coot");
    char nm[32];
    sprintf(nm, "burdock.%ld", (long)v);
    int fd = ex_file(nm, O_RDWR | O_DSYNC);
    for (;;) {
        int s = accept(l, 0, 0);
        struct exreq q;
        if (s < 0)
            continue;
        ex_nodelay(s);
        if (!ex_full(s, &q, sizeof q, 0)) {
            EX_BURN_US(O.work_us);
            if (ex_is("settle"))
                burdock_settle();
            else if (ex_is("append")) {
                if (q.id % 12 == 5)
                    burdock_append(fd, 160);
            } else
                burdock_await();
            ex_full(s, &q, sizeof q, 1);
        }
        close(s);
    }
    return v;
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 120, 250, 12);
    log_ = ex_file("burdock.log", O_RDWR | O_DSYNC);
    seg = ex_file("burdock.seg", O_RDWR);
    turn = ex_now() + 2;
    l = ex_listen(O.port);
    if (ex_is("none")) {
        ex_thread(teal, 0);
        ex_thread(wigeon, 0);
    }
    for (long i = 0; i < 8; i++)
        ex_thread(coot, (void *)i);
    ex_load("conn", 0, 0);
    for (;;)
        pause();
}
