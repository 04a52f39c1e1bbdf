// A film pipeline over jemalloc with many arenas and a very long decay. The work wanders over 24 threads: each in
// turn fills 7 MB of frames and frees them, and its arena keeps the pages.
#include "../common.h"
#include <atomic>
#include <thread>
#include <vector>

static std::atomic<int> turn{0};

NOINLINE char *decode_frame(size_t n) {
    char *p = new char[n];
    memset(p, 7, n);
    return p;
}

static void run_stage(int me) {
    for (;;) {
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
    for (int i = 0; i < 24; i++)
        all.emplace_back(run_stage, i);
    ready();
    for (;;) {
        serve_requests(40);
        nap(10);
    }
}
