// A connection per request; the accepting thread puts it in a deque, four workers wait on a condition_variable. Requests
// compute, then look into a sorted loft under a std::shared_mutex. Fault: sort (`heron` keeps the loft exclusively while
// std::sort orders it, every 2.3 s). Mended: sorts a copy, niced, and swaps. Without fault also the subject of hogs and quota.
#include "../outside/ex.h"
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <sys/resource.h>
#include <thread>
#include <vector>
static std::mutex m;
static std::condition_variable cv;
static std::deque<int> line;
static std::shared_mutex loft_mu;
static std::vector<uint64_t> loft;
static uint64_t seed = 88172645463325252ull;
NOINL void fennel_stir(std::vector<uint64_t> &v) {
    for (auto &x : v) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        x = seed;
    }
}
NOINL size_t fennel_arrange(std::vector<uint64_t> &v) {
    std::sort(v.begin(), v.end());
    ex_sink += v[0];
    return v.size();
}
static void heron() {
    ex_name("heron");
    std::vector<uint64_t> next(loft.size());
    if (!ex_is("sort"))
        setpriority(PRIO_PROCESS, gettid(), 10);
    for (;;) {
        ex_sleep_ms(2150);
        fennel_stir(next);
        if (ex_is("sort")) {
            std::unique_lock<std::shared_mutex> g(loft_mu);
            loft.swap(next);
            fennel_arrange(loft);
        } else {
            fennel_arrange(next);
            std::unique_lock<std::shared_mutex> g(loft_mu);
            loft.swap(next);
        }
    }
}
NOINL void fennel_reply(uint64_t id) {
    EX_BURN_US(O.work_us);
    std::shared_lock<std::shared_mutex> g(loft_mu);
    ex_sink += std::lower_bound(loft.begin(), loft.end(), id << 40) - loft.begin();
}
static void rook() {
    ex_name("rook");
    for (;;) {
        int s;
        {
            std::unique_lock<std::mutex> g(m);
            cv.wait(g, [] { return !line.empty(); });
            s = line.front();
            line.pop_front();
        }
        exreq q;
        if (!ex_full(s, &q, sizeof q, 0)) {
            fennel_reply(q.id);
            ex_full(s, &q, sizeof q, 1);
        }
        close(s);
    }
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 120, 300, 10);
    loft.resize(1600000);
    fennel_stir(loft);
    fennel_arrange(loft);
    int l = ex_listen(O.port);
    for (int i = 0; i < 4; i++)
        std::thread(rook).detach();
    if (!ex_is("plain"))
        std::thread(heron).detach();
    ex_load("conn", 0, 0);
    for (;;) {
        int s = accept(l, 0, 0);
        if (s < 0)
            continue;
        ex_nodelay(s);
        {
            std::lock_guard<std::mutex> g(m);
            line.push_back(s);
        }
        cv.notify_one();
    }
}
