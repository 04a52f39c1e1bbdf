// film pipeline under jemalloc with many arenas and a very long decay: the work wanders over 24 threads, each in its turn fills about
// 7 MB of frames and frees them. One stage's worth is live at any time; each arena keeps its dirty pages
#include "work.h"
#include <atomic>
#include <thread>
#include <vector>
static std::atomic<int> turn{0}, stop{0};
NOINLINE char *decode_frame(size_t n) {
    char *p = new char[n];
    memset(p, 7, n);
    return p;
}
static void stage(int me) {
    while (!stop) {
        if (turn != me) {
            nap(20);
            continue;
        }
        std::vector<std::pair<char *, size_t>> f;
        size_t bytes = 0;
        for (int step = 0; step < 100; step++) {
            while (bytes < 70000u * step) {
                size_t n = rng(2000, 40000);
                f.push_back({decode_frame(n), n});
                bytes += n;
            }
            nap(20);
        }
        for (auto &x : f)
            delete[] x.first;
        turn = (me + 1) % 24;
    }
}
int main() {
    std::vector<std::thread> all;
    double t0 = now();
    for (int i = 0; i < 24; i++)
        all.emplace_back(stage, i);
    while (now() - t0 < RUN_LIMIT) {
        bystanders(40);
        truth();
        nap(10);
    }
    stop = 1;
    for (auto &t : all)
        t.join();
}
