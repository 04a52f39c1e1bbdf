// a thread per client; each request calls the peer over one of three pooled connections. fault: peer (every 2.8 s the
// peer takes 180 ms for each call begun within 40 ms: all three are borrowed, the others wait for the pool).
// Mended: `bogie` makes the slow calls on its own connection, requests meanwhile answer from what they know.
#include "ox.h"
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
class Siding {
    std::mutex m;
    std::condition_variable cv;
    std::vector<int> idle;

  public:
    NOINL int gantry_borrow() {
        std::unique_lock<std::mutex> g(m);
        cv.wait(g, [&] { return !idle.empty(); });
        int s = idle.back();
        idle.pop_back();
        return s;
    }
    void put(int s) {
        std::lock_guard<std::mutex> g(m);
        idle.push_back(s);
        cv.notify_one();
    }
};
static Siding siding;
static bool slow_now() {
    return (long)(ex_now() * 1e3) % 2800 < 40;
}
NOINL void gantry_call(int s, uint64_t id, uint64_t ms) {
    exreq q = {id, ms};
    if (ex_full(s, &q, sizeof q, 1) || ex_full(s, &q, sizeof q, 0))
        exit(9);
    ex_sink += q.id;
}
static void hook(int fd) {
    ex_name("hook");
    ex_nodelay(fd);
    exreq q;
    while (!ex_full(fd, &q, sizeof q, 0)) {
        EX_BURN_US(O.work_us);
        bool slow = slow_now();
        if (!slow || ex_is("peer")) {
            int s = siding.gantry_borrow();
            slow = slow_now();
            gantry_call(s, q.id, slow ? 180 : 0);
            siding.put(s);
        }
        if (ex_full(fd, &q, sizeof q, 1))
            break;
    }
    close(fd);
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 160, 300, 12);
    int l = ex_listen(O.port);
    char p[16];
    sprintf(p, "%d", O.port + 1);
    ox_spawn(0, 0, "kpeer", p, 0, 0);
    for (int i = 0; i < 3; i++) {
        int s = -1;
        for (int k = 0; k < 20 && s < 0; k++, ex_sleep_ms(100))
            s = ex_connect(O.port + 1);
        siding.put(s);
    }
    std::thread([] {
        ex_name("bogie");
        int s = ex_connect(O.port + 1);
        for (;;) {
            ox_until(2800, 1);
            gantry_call(s, 1, ex_is("peer") ? 1 : 180);
        }
    }).detach();
    ex_load("keep", 0, 0);
    for (;;)
        std::thread(hook, accept(l, 0, 0)).detach();
}
