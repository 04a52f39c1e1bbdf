// task queue with 3 producers/consumers, jittery depth, results exchanged between threads, jemalloc: flat after warm-up
#include "util.hpp"
#include <mutex>
#include <thread>
#include <atomic>
std::mutex mu;
std::deque<std::vector<char>> q;
std::atomic<bool> stop{false};
NOINLINE void produce() {
    std::vector<char> v(rng(500, 20000), 'j');
    std::lock_guard<std::mutex> g(mu);
    q.push_back(std::move(v));
}
NOINLINE size_t consume() {
    std::vector<char> v;
    {
        std::lock_guard<std::mutex> g(mu);
        if (q.empty())
            return 0;
        v = std::move(q.front());
        q.pop_front();
    }
    return v.size();
}
int main() {
    double t0 = now();
    for (int i = 0; i < 5300; i++)
        produce();
    std::vector<std::thread> ts;
    for (int i = 0; i < 2; i++) {
        ts.emplace_back([] {
            while (!stop) {
                size_t d;
                {
                    std::lock_guard<std::mutex> g(mu);
                    d = q.size();
                }
                if (d < 5300)
                    for (int k = 0; k < 7; k++)
                        produce();
                nap(15);
            }
        });
        ts.emplace_back([] {
            size_t s = 0;
            while (!stop) {
                for (int k = 0; k < 4; k++) {
                    size_t d;
                    {
                        std::lock_guard<std::mutex> g(mu);
                        d = q.size();
                    }
                    if (d > 4700)
                        s += consume();
                }
                nap(12);
            }
            if (s == 1)
                puts("x");
        });
    }
    while (now() - t0 < RUN_LIMIT)
        nap(100);
    stop = true;
    for (auto &t : ts)
        t.join();
}
