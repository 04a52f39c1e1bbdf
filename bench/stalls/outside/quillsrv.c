// thread per connection, pthread_rwlock. faults: fsync, sleep
#include "ex.h"
static pthread_rwlock_t idx = PTHREAD_RWLOCK_INITIALIZER;
static uint64_t tab[4096];
static int jf;
NOINL int ostra_persist_index(double ms) {
    int n = ex_sync_some(jf, ms);
    tab[3] += n;
    return n + 1;
}
NOINL void ostra_backoff_hold(double ms) {
    ex_sleep_ms(ms);
    tab[4]++;
}
NOINL uint64_t quill_find(uint64_t id) {
    pthread_rwlock_rdlock(&idx);
    uint64_t r = tab[id & 4095];
    EX_BURN_US(O.work_us / 5);
    pthread_rwlock_unlock(&idx);
    return r;
}
static void *desk(void *v) {
    int s = (long)v;
    ex_name("desk");
    ex_nodelay(s);
    struct exreq q;
    while (!ex_full(s, &q, sizeof q, 0)) {
        EX_BURN_US(O.work_us);
        quill_find(q.id);
        if (ex_full(s, &q, sizeof q, 1))
            break;
    }
    close(s);
    return 0;
}
static void *saver(void *v) {
    (void)v;
    ex_name("rim-saver");
    int k = 0;
    for (;;) {
        ex_sleep_ms(2300);
        k++;
        int f = ex_is("fsync"), z = ex_is("sleep");
        if (f || z)
            pthread_rwlock_wrlock(&idx);
        if (f || (!z && k % 2))
            ostra_persist_index(160);
        else
            ostra_backoff_hold(140);
        if (f || z)
            pthread_rwlock_unlock(&idx);
    }
    return 0;
}
int main(int c, char **v) {
    ex_args(c, v, 21010, 160, 400, 10);
    jf = ex_file("quill.idx", O_RDWR);
    int l = ex_listen(O.port);
    ex_thread(saver, 0);
    ex_load("keep", 0, 0);
    for (;;) {
        int s = accept(l, 0, 0);
        if (s >= 0)
            pthread_detach(ex_thread(desk, (void *)(long)s));
    }
}
