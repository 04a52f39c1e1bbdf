// C++ pool on a deque with condition_variable; catalog mutex then journal mutex. faults: chain-fsync, chain-net
#include "ex.h"
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>
namespace drusk {
std::mutex catalog, journal, qmu, kick;
std::condition_variable qcv, kcv;
std::deque<int> q;
int jf;
uint64_t seq[64];
bool kicked;
NOINL int drusk_seal_segment(double ms) {
    int n = ex_sync_some(jf, ms);
    seq[1] += n;
    return n + 1;
}
NOINL int drusk_ask_upstream(int ms) {
    int r = ex_ask_peer(O.port + 1, ms);
    seq[2] += r;
    return r + 1;
}
NOINL void drusk_relay_entry() {
    std::lock_guard<std::mutex> a(catalog);
    std::lock_guard<std::mutex> b(journal);
    seq[3]++;
}
NOINL void serve(int s) {
    exreq r;
    if (!ex_full(s, &r, sizeof r, 0)) {
        EX_BURN_US(O.work_us);
        {
            std::lock_guard<std::mutex> a(catalog);
            seq[r.id & 31]++;
            EX_BURN_US(60);
        }
        ex_full(s, &r, sizeof r, 1);
    }
    close(s);
}
void pool() {
    ex_name("drk-pool");
    for (;;) {
        int s;
        {
            std::unique_lock<std::mutex> g(qmu);
            qcv.wait(g, [] { return !q.empty(); });
            s = q.front();
            q.pop_front();
        }
        serve(s);
    }
}
void relay() {
    ex_name("mid-relay");
    for (;;) {
        {
            std::unique_lock<std::mutex> g(kick);
            kcv.wait(g, [] { return kicked; });
            kicked = false;
        }
        ex_sleep_ms(15);
        drusk_relay_entry();
    }
}
void deep() {
    ex_name("deep-flush");
    for (int k = 0;; k++) {
        ex_sleep_ms(2900);
        {
            std::lock_guard<std::mutex> g(kick);
            kicked = true;
        }
        kcv.notify_one();
        if (ex_is("chain-fsync")) {
            std::lock_guard<std::mutex> b(journal);
            drusk_seal_segment(180);
        } else if (ex_is("chain-net")) {
            std::lock_guard<std::mutex> b(journal);
            drusk_ask_upstream(250);
        } else if (k % 2)
            drusk_seal_segment(180);
        else
            drusk_ask_upstream(250);
    }
}
} // namespace drusk
int main(int c, char **v) {
    using namespace drusk;
    ex_args(c, v, 21030, 180, 250, 9);
    jf = ex_file("drusk.log", O_RDWR);
    int l = ex_listen(O.port);
    ex_peer();
    std::vector<std::thread> t;
    for (int i = 0; i < 7; i++)
        t.emplace_back(pool);
    t.emplace_back(relay);
    t.emplace_back(deep);
    ex_load("conn", 0, 0);
    for (;;) {
        int s = accept(l, 0, 0);
        if (s < 0)
            continue;
        ex_nodelay(s);
        {
            std::lock_guard<std::mutex> g(qmu);
            q.push_back(s);
        }
        qcv.notify_one();
    }
}
