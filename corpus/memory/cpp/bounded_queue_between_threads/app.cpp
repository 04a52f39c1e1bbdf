// A queue of jobs between two producers and two consumers, whose depth is bounded and varies. It is ready once the
// arena of each thread has reached its size.
#include "../common.h"
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

std::mutex mu;
std::deque<std::vector<char>> q;

NOINLINE void produce_job() {
    std::vector<char> v(rng(500, 20000), 'j');
    std::lock_guard<std::mutex> g(mu);
    q.push_back(std::move(v));
}

NOINLINE size_t consume_job() {
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
    for (int i = 0; i < 5300; i++)
        produce_job();
    std::vector<std::thread> ts;
    for (int i = 0; i < 2; i++) {
        ts.emplace_back([] {
            for (;;) {
                size_t d;
                {
                    std::lock_guard<std::mutex> g(mu);
                    d = q.size();
                }
                if (d < 5300)
                    for (int k = 0; k < 7; k++)
                        produce_job();
                nap(15);
            }
        });
        ts.emplace_back([] {
            volatile size_t s = 0;
            for (;;) {
                for (int k = 0; k < 4; k++) {
                    size_t d;
                    {
                        std::lock_guard<std::mutex> g(mu);
                        d = q.size();
                    }
                    if (d > 4700)
                        s = s + consume_job();
                }
                nap(12);
            }
        });
    }
    nap(25000);
    ready();
    for (;;)
        nap(100);
}
