// A shop: requests take the shelf's std::mutex. Every 3.05 s an importer asks the peer (230 ms), an updater takes the
// aisle's pthread rwlock and the cellar's std::shared_mutex, an auditor the shelf's mutex and the aisle's lock. --fault
// chain: the importer asks with the cellar's mutex, so that requests wait for the auditor, the auditor for the updater,
// and the updater for the importer. Healthy: it takes that mutex after the answer.
#include "../../common/service.h"
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>

static std::mutex shelf;
static pthread_rwlock_t aisle = PTHREAD_RWLOCK_INITIALIZER;
static std::shared_mutex cellar;
static std::map<uint64_t, uint64_t> stock;
static uint64_t stored[64];

NOINLINE void take_one(uint64_t id) {
    std::lock_guard<std::mutex> guard(shelf);
    if (++stock[id % 500] > 1000000)
        stock[id % 500] = 0;
    burn_us(settings.work_us / 4);
}

NOINLINE void fetch_rates(int ms) {
    stored[5] += ask_peer(ms) + 1;
}

NOINLINE void import_rates() {
    if (is_variant("chain")) {
        std::unique_lock<std::shared_mutex> guard(cellar);
        fetch_rates(230);
    } else {
        fetch_rates(230);
        std::unique_lock<std::shared_mutex> guard(cellar);
        stored[6]++;
    }
}

NOINLINE void update_stock() {
    pthread_rwlock_wrlock(&aisle);
    {
        std::unique_lock<std::shared_mutex> guard(cellar);
        stored[7]++;
        burn_us(200);
    }
    pthread_rwlock_unlock(&aisle);
}

NOINLINE void audit_shelf() {
    std::lock_guard<std::mutex> guard(shelf);
    pthread_rwlock_rdlock(&aisle);
    stock[1] += stored[7];
    pthread_rwlock_unlock(&aisle);
}

static void repeat(const char *thread_name, double offset_ms, void (*step)()) {
    name_thread(thread_name);
    for (;;) {
        sleep_until_multiple(3050, offset_ms);
        step();
    }
}

static void handle_request(uint64_t id) {
    burn_us(settings.work_us);
    take_one(id);
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 150, 300, 10);
    int listener = listen_on(settings.port);
    start_peer("peer");
    std::thread(repeat, "rate-importer", 0.0, import_rates).detach();
    std::thread(repeat, "stock-updater", 8.0, update_stock).detach();
    std::thread(repeat, "shelf-auditor", 16.0, audit_shelf).detach();
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", handle_request);
}
