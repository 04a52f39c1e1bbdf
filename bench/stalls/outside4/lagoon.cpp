// a thread per client over an LRU of small objects under one std::mutex, and a table under a std::shared_mutex.
// Faults: evict (every 2.5 s `heron` drops 1,000,000 objects of a finished epoch under the mutex), stats (every 2.7 s `heron`
// walks a std::map of 600,000 under the SHARED lock; requests write rows, so they want it exclusively).
// Mended: the list is spliced out under the mutex and freed afterwards; the walk is over heron's own map.
#include "../outside2/ox.h"
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
struct Pebble {
    uint64_t k;
    std::string tag;
    std::unique_ptr<uint64_t[]> w;
    Pebble(uint64_t i) : k(i), tag(40, 'a' + i % 26), w(new uint64_t[6]) { w[0] = i; }
};
static std::mutex weir;
static std::shared_mutex basin;
static std::list<Pebble> shore;
static std::map<uint64_t, uint64_t> depth, own;
NOINL void lag_drop(std::list<Pebble> &l) {
    while (!l.empty())
        l.pop_back();
    ex_sink++;
}
NOINL void lag_ebb() {
    std::list<Pebble> out;
    {
        std::lock_guard<std::mutex> g(weir);
        if (ex_is("evict"))
            lag_drop(shore);
        else
            out.splice(out.begin(), shore);
    }
    lag_drop(out);
}
NOINL void lag_flow() { // the next epoch, filled in small steps
    for (uint64_t i = 0; i < 1000000;) {
        std::list<Pebble> some;
        for (int j = 0; j < 200; j++, i++)
            some.emplace_back(i);
        {
            std::lock_guard<std::mutex> g(weir);
            shore.splice(shore.begin(), some);
        }
        if (i % 10000 == 0)
            ex_sleep_ms(10);
    }
}
NOINL void lag_gauge(const std::map<uint64_t, uint64_t> &m, int n) {
    uint64_t s = 0;
    for (int i = 0; i < n; i++)
        for (auto &x : m)
            s += x.first ^ x.second;
    ex_sink += s;
}
NOINL void lag_sound() {
    if (ex_is("stats")) {
        std::shared_lock<std::shared_mutex> g(basin);
        lag_gauge(depth, 2);
    } else
        lag_gauge(own, 2);
    ex_sink++;
}
NOINL void lag_dip(uint64_t id) {
    {
        std::lock_guard<std::mutex> g(weir);
        if (!shore.empty())
            shore.front().w[1] += id;
    }
    std::unique_lock<std::shared_mutex> g(basin);
    depth[id % 600000] += id;
}
static void teal(int fd) {
    ex_name("teal");
    ex_nodelay(fd);
    exreq q;
    while (!ex_full(fd, &q, sizeof q, 0)) {
        EX_BURN_US(O.work_us);
        lag_dip(q.id);
        if (ex_full(fd, &q, sizeof q, 1))
            break;
    }
    close(fd);
}
static void heron() {
    ex_name("heron");
    for (int n = 0;; n++) {
        if (ex_is("evict") || (ex_is("none") && n % 2)) {
            lag_flow();
            ex_sleep_ms(700);
            lag_ebb();
        } else {
            ex_sleep_ms(2500);
            lag_sound();
        }
    }
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 160, 200, 10);
    int l = ex_listen(O.port);
    for (uint64_t i = 0; i < 600000; i++)
        (ex_is("none") ? own : depth)[i * 7919 % 600011] = i;
    if (ex_is("none"))
        for (uint64_t i = 0; i < 600000; i += 7)
            depth[i] = i;
    std::thread(heron).detach();
    ex_load("keep", 0, 0);
    for (;;)
        std::thread(teal, accept(l, 0, 0)).detach();
}
