// An index under a pthread rwlock, a thread for each connection. Every 2.3 s a thread saves the index (160 ms of small
// fsyncs) or pauses (140 ms). --fault fsync, sleep: it does so with the write lock. Healthy: both in turn, unlocked.
#include "../../common/service.h"

enum { ROWS = 4096 };
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static uint64_t rows[ROWS];
static int index_file;

NOINLINE int persist_index(double ms) {
    int n = sync_for_ms(index_file, ms);
    rows[3] += n;
    return n + 1;
}

NOINLINE void pause_saving(double ms) {
    sleep_ms(ms);
    rows[4]++;
}

NOINLINE uint64_t find_row(uint64_t id) {
    pthread_rwlock_rdlock(&lock);
    uint64_t row = rows[id % ROWS];
    burn_us(settings.work_us / 5);
    pthread_rwlock_unlock(&lock);
    return row;
}

static void *save_index(void *unused) {
    name_thread("index-saver");
    bool fsync = is_variant("fsync"), locked = fsync || is_variant("sleep");
    for (int turn = 1;; turn++) {
        sleep_ms(2300);
        if (locked)
            pthread_rwlock_wrlock(&lock);
        if (fsync || (!locked && turn % 2))
            persist_index(160);
        else
            pause_saving(140);
        if (locked)
            pthread_rwlock_unlock(&lock);
    }
    return unused;
}

static void handle_request(uint64_t id) {
    burn_us(settings.work_us);
    use_result(find_row(id));
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 160, 400, 10);
    index_file = open_file("index", O_RDWR);
    int listener = listen_on(settings.port);
    start_thread(save_index, 0);
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", handle_request);
}
