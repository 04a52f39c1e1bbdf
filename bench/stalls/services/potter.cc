// C++20: five threads that wait for jobs at a counting_semaphore, fed over a pipe from another process. kiln: a std::shared_mutex, its
// writer sorts under it for some 40 ms. "fixed" sorts a copy first.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <vector>

static bool fixed_up;
static FILE *truth;
static std::shared_mutex glaze;
static std::mutex shelf;
static std::counting_semaphore<> jobs(0);
static std::deque<uint64_t> queue;
static std::vector<uint32_t> pots(1 << 19);

static uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

static void told(const char *word, int me, uint64_t start, uint64_t least_ns) {
    uint64_t end = now_ns();
    if (end - start < least_ns) return;
    fprintf(truth, "%s %d %llu %llu\n", word, me, (unsigned long long)start, (unsigned long long)end);
    fflush(truth);
}

[[gnu::noinline]] static void ochre_sort() {
    static uint32_t seed = 1;
    std::vector<uint32_t> fresh;
    std::unique_lock<std::shared_mutex> held(glaze, std::defer_lock);
    if (!fixed_up) held.lock();
    fresh = pots;
    for (auto &one : fresh) one = seed = seed * 1664525u + 1013904223u;
    std::sort(fresh.begin(), fresh.end());
    if (fixed_up) held.lock();
    pots.swap(fresh);
}

[[gnu::noinline]] static uint32_t umber_read(int me, uint64_t n) {
    uint64_t start = now_ns();
    std::shared_lock<std::shared_mutex> held(glaze);
    told("wait", me, start, 1000000);
    return pots[n % pots.size()];
}

static void serve(int me) {
    for (volatile uint64_t sum = 0;;) {
        jobs.acquire();
        uint64_t came;
        {
            std::lock_guard<std::mutex> held(shelf);
            came = queue.front();
            queue.pop_front();
        }
        for (uint64_t end = now_ns() + 150000; now_ns() < end;) sum = sum + 1;
        sum = sum + umber_read(me, came);
        told("stall", me, came, 3000000);
    }
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    fixed_up = !strcmp(argv[argc - 1], "fixed");
    truth = fopen(argv[1], "w");
    int ends[2];
    if (!truth || pipe(ends)) return 4;
    if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (char b = 1; write(ends[1], &b, 1) == 1;) usleep(1900);
        _exit(0);
    }
    alarm(unsigned(atof(argv[2])) + 1);
    std::vector<std::thread> all;
    for (int me = 0; me < 5; me++) all.emplace_back(serve, me);
    all.emplace_back([] {
        for (;;) {
            std::this_thread::sleep_for(std::chrono::milliseconds(660));
            ochre_sort();
        }
    });
    for (char b; read(ends[0], &b, 1) == 1;) {
        std::lock_guard<std::mutex> held(shelf);
        queue.push_back(now_ns());
        jobs.release();
    }
}
