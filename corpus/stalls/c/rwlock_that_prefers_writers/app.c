// A price table under a pthread rwlock that prefers writers; a thread for each connection reads it, a writer changes a
// row every 25 ms. Now and then an auditor keeps the READ lock: the writer waits for it, and all readers behind the
// writer. --fault compute: while it sums rows, 150 ms. --fault network: while it asks the peer, 240 ms. Healthy: it
// copies the table under the read lock and does both, in turn, without it.
#include "../../common/service.h"

enum { ROWS = 1 << 16 };
static pthread_rwlock_t lock;
static uint64_t rows[ROWS], copy[ROWS];

NOINLINE void sum_prices(const uint64_t *table, double ms) {
    double end = now_s() + ms / 1e3;
    uint64_t sum = 0;
    while (now_s() < end)
        for (int i = 0; i < ROWS; i++)
            sum = sum * 31 + table[i];
    use_result(sum);
}

NOINLINE void compare_with_peer(uint64_t ms) {
    if (ask_peer(ms))
        fprintf(stderr, "the peer did not answer\n");
    use_result(1);
}

NOINLINE void audit_table(int turn) {
    bool locked = !is_variant("none");
    pthread_rwlock_rdlock(&lock);
    if (!locked) {
        memcpy(copy, rows, sizeof rows);
        pthread_rwlock_unlock(&lock);
    }
    if (is_variant("network") || (!locked && turn % 2))
        compare_with_peer(240);
    else
        sum_prices(locked ? rows : copy, 150);
    if (locked)
        pthread_rwlock_unlock(&lock);
    use_result(1);
}

static void *run_audits(void *unused) {
    name_thread("auditor");
    for (int turn = 0;; turn++) {
        sleep_ms(is_variant("network") ? 2660 : 2450);
        audit_table(turn);
    }
    return unused;
}

NOINLINE void set_price(uint64_t key) {
    pthread_rwlock_wrlock(&lock);
    rows[key % ROWS] += key;
    pthread_rwlock_unlock(&lock);
}

static void *write_prices(void *unused) {
    name_thread("price-writer");
    for (uint64_t key = 1;; key += 7919) {
        sleep_ms(25);
        set_price(key);
    }
    return unused;
}

NOINLINE uint64_t read_price(uint64_t id) {
    pthread_rwlock_rdlock(&lock);
    uint64_t price = rows[id % ROWS];
    pthread_rwlock_unlock(&lock);
    return price;
}

static void handle_request(uint64_t id) {
    burn_us(settings.work_us);
    use_result(read_price(id));
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 160, 250, 10);
    int listener = listen_on(settings.port);
    start_peer("peer");
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&lock, &attributes);
    for (int i = 0; i < ROWS; i++)
        rows[i] = i * 7919;
    start_thread(write_prices, 0);
    start_thread(run_audits, 0);
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", handle_request);
}
