// a thread per connection; requests take `shelf` (std::mutex). fault chain: leg-one holds shelf and waits for aisle
// (pthread rwlock), leg-two holds aisle and waits for cellar (std::shared_mutex), leg-tri holds cellar over a round trip.
#include "ox.h"
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
static std::mutex shelf;
static pthread_rwlock_t aisle = PTHREAD_RWLOCK_INITIALIZER;
static std::shared_mutex cellar;
static std::map<uint64_t, uint64_t> stock;
static uint64_t vault[64];
NOINL void take_one(uint64_t id) {
    std::lock_guard<std::mutex> g(shelf);
    if (++stock[id % 500] > 1000000)
        stock[id % 500] = 0;
    EX_BURN_US(O.work_us / 4);
}
NOINL void trivet_hail(int ms) {
    vault[5] += ex_ask_peer(O.port + 1, ms) + 1;
}
NOINL void trivet_tri() {
    if (ex_is("chain")) {
        std::unique_lock<std::shared_mutex> g(cellar);
        trivet_hail(230);
    } else {
        trivet_hail(230);
        std::unique_lock<std::shared_mutex> g(cellar);
        vault[6]++;
    }
}
NOINL void trivet_two() {
    pthread_rwlock_wrlock(&aisle);
    {
        std::unique_lock<std::shared_mutex> g(cellar);
        vault[7]++;
        EX_BURN_US(200);
    }
    pthread_rwlock_unlock(&aisle);
}
NOINL void trivet_one() {
    std::lock_guard<std::mutex> g(shelf);
    pthread_rwlock_rdlock(&aisle);
    stock[1] += vault[7];
    pthread_rwlock_unlock(&aisle);
}
static void leg(const char *n, double off, void (*f)()) {
    ex_name(n);
    for (;;) {
        ox_until(3050, off);
        f();
    }
}
static void seat(int fd) {
    ex_name("seat");
    ex_nodelay(fd);
    exreq q;
    while (!ex_full(fd, &q, sizeof q, 0)) {
        EX_BURN_US(O.work_us);
        take_one(q.id);
        if (ex_full(fd, &q, sizeof q, 1))
            break;
    }
    close(fd);
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 150, 300, 10);
    int l = ex_listen(O.port);
    ex_peer();
    std::thread(leg, "leg-tri", 0.0, trivet_tri).detach();
    std::thread(leg, "leg-two", 8.0, trivet_two).detach();
    std::thread(leg, "leg-one", 16.0, trivet_one).detach();
    ex_load("keep", 0, 0);
    for (;;)
        std::thread(seat, accept(l, 0, 0)).detach();
}
