// a thread per client; requests read a table under a pthread rwlock that prefers writers. `tansy` writes a row under the
// write lock every 25 ms. Faults: `sorrel` keeps the READ lock while it sums the whole table ~150 ms (walk, every 2.6 s)
// or while it asks the peer, 240 ms (pull, every 2.9 s): tansy queues behind it and every reader behind tansy.
// Mended: sorrel copies what it needs under the read lock and works outside.
#include "../outside2/ox.h"
#define ROWS (1 << 16)
static pthread_rwlock_t gate;
static uint64_t row[ROWS], copy[ROWS];
NOINL void rush_sum(const uint64_t *t, double ms) {
    double e = ex_now() + ms / 1e3;
    uint64_t s = 0;
    while (ex_now() < e)
        for (int i = 0; i < ROWS; i++)
            s = s * 31 + t[i];
    ex_sink += s;
}
NOINL void rush_ask(uint64_t ms) {
    if (ex_ask_peer(O.port + 1, ms))
        fprintf(stderr, "peer failed\n");
    ex_sink++;
}
NOINL void rush_audit(int turn) {
    int bad = !ex_is("none"), net = ex_is("pull") || (!bad && turn % 2);
    pthread_rwlock_rdlock(&gate);
    const uint64_t *t = row;
    if (!bad) {
        memcpy(copy, row, sizeof row);
        t = copy;
        pthread_rwlock_unlock(&gate);
    }
    if (net)
        rush_ask(240);
    else
        rush_sum(t, 150);
    if (bad)
        pthread_rwlock_unlock(&gate);
    ex_sink++;
}
static void *sorrel(void *v) {
    ex_name("sorrel");
    for (int n = 0;; n++) {
        ex_sleep_ms(ex_is("pull") ? 2660 : 2450);
        rush_audit(n);
    }
    return v;
}
NOINL void rush_set(uint64_t k) {
    pthread_rwlock_wrlock(&gate);
    row[k % ROWS] += k;
    pthread_rwlock_unlock(&gate);
}
static void *tansy(void *v) {
    ex_name("tansy");
    for (uint64_t k = 1;; k += 7919) {
        ex_sleep_ms(25);
        rush_set(k);
    }
    return v;
}
NOINL uint64_t rush_get(uint64_t id) {
    pthread_rwlock_rdlock(&gate);
    uint64_t x = row[id % ROWS];
    pthread_rwlock_unlock(&gate);
    return x;
}
static void *reed(void *v) {
    int fd = (long)v;
    ex_name("reed");
    ex_nodelay(fd);
    struct exreq q;
    while (!ex_full(fd, &q, sizeof q, 0)) {
        EX_BURN_US(O.work_us);
        ex_sink += rush_get(q.id);
        if (ex_full(fd, &q, sizeof q, 1))
            break;
    }
    close(fd);
    return 0;
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 160, 250, 10);
    int l = ex_listen(O.port);
    char p[16];
    sprintf(p, "%d", O.port + 1);
    ox_spawn(0, 0, "kpeer", p, 0, 0);
    pthread_rwlockattr_t a;
    pthread_rwlockattr_init(&a);
    pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&gate, &a);
    for (int i = 0; i < ROWS; i++)
        row[i] = i * 7919;
    ex_thread(tansy, 0);
    ex_thread(sorrel, 0);
    ex_load("keep", 0, 0);
    for (;;)
        pthread_detach(ex_thread(reed, (void *)(long)accept(l, 0, 0)));
}
