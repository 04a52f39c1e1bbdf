// C++: a pool of std::thread that a pacer feeds through std::condition_variable; locks of the standard library. One fault by
// flag: mutex, shared, timed, counting (a semaphore of one made of a mutex and a condition), convoy (many short turns).
// "fixed" is the same program mended.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>
#include <sys/socket.h>
#include <sys/prctl.h>
#include <unistd.h>

using namespace std::chrono;
static std::FILE *truth;
static bool fixed_;
static std::string kind;
static int peer_fd;
static long hold_ms = 45;

static void work(microseconds time) {
    for (auto end = steady_clock::now() + time; steady_clock::now() < end;) {}
}

class Pool {
    std::mutex lock;
    std::condition_variable filled;
    std::deque<std::function<void()>> jobs;
    std::vector<std::thread> threads;

  public:
    explicit Pool(int count) {
        for (int i = 0; i < count; i++)
            threads.emplace_back([this, i] { prctl(PR_SET_NAME, ("gc#" + std::to_string(i)).c_str()); run(); });
    }
    void submit(std::function<void()> job) {
        { std::lock_guard hold(lock); jobs.push_back(std::move(job)); }
        filled.notify_one();
    }
    void run() {
        for (;;) {
            std::function<void()> job;
            {
                std::unique_lock hold(lock);
                filled.wait(hold, [this] { return !jobs.empty(); });
                job = std::move(jobs.front());
                jobs.pop_front();
            }
            job();
        }
    }
};

static std::mutex prices;
static std::shared_mutex catalogue;
static std::timed_mutex till;
static std::mutex permit_lock;
static std::condition_variable permit_back;
static int permits = 1;
static std::map<int, int> table;

static void permit_take() {
    std::unique_lock hold(permit_lock);
    permit_back.wait(hold, [] { return permits > 0; });
    permits--;
}
static void permit_give() {
    { std::lock_guard hold(permit_lock); permits++; }
    permit_back.notify_one();
}

[[gnu::noinline]] static void barley_ask(long ms) {
    int wanted = static_cast<int>(ms);
    if (write(peer_fd, &wanted, sizeof wanted) < 0 || read(peer_fd, &wanted, sizeof wanted) <= 0) _exit(0);
}

namespace silo {
[[gnu::noinline]] void rye_rebuild() {
    if (kind == "mutex") {
        std::unique_lock hold(prices, std::defer_lock);
        if (!fixed_) hold.lock();
        barley_ask(hold_ms);
        if (fixed_) hold.lock();
        table[1]++;
    } else if (kind == "shared") {
        std::unique_lock hold(catalogue, std::defer_lock);
        if (!fixed_) hold.lock();
        work(milliseconds(hold_ms));
        if (fixed_) hold.lock();
        table[2]++;
    } else if (kind == "timed") {
        std::unique_lock hold(till, std::defer_lock);
        if (!fixed_) hold.lock();
        std::this_thread::sleep_for(milliseconds(hold_ms));
        if (fixed_) hold.lock();
        table[3]++;
    } else if (kind == "counting") {
        if (!fixed_) permit_take();
        barley_ask(hold_ms);
        if (fixed_) permit_take();
        permit_give();
    }
    asm volatile("");
}
[[gnu::noinline]] void oat_convoy() {
    // Fourteen turns of a millisecond and a half, each under the lock.
    for (int i = 0; i < 14; i++) {
        std::unique_lock hold(prices, std::defer_lock);
        if (!fixed_) hold.lock();
        work(microseconds(1500));
        if (fixed_) hold.lock();
        table[4]++;
    }
    asm volatile("");
}
}

static void request(int who, steady_clock::time_point came) {
    work(microseconds(150));
    if (kind == "mutex" || kind == "convoy") {
        for (int i = 0; i < (kind == "convoy" ? 12 : 1); i++) {
            std::lock_guard hold(prices);
            table[0]++;
        }
    } else if (kind == "shared") {
        std::shared_lock hold(catalogue);
        work(microseconds(3));
    } else if (kind == "timed") {
        if (till.try_lock_for(seconds(3))) till.unlock();
    } else if (kind == "counting") {
        permit_take();
        work(microseconds(3));
        permit_give();
    }
    auto now = steady_clock::now();
    if (now - came > milliseconds(3)) {
        std::fprintf(truth, "stall %d %lld %lld\n", who, (long long)came.time_since_epoch().count(),
                     (long long)now.time_since_epoch().count());
        std::fflush(truth);
    }
}

// A peer that answers after as many milliseconds as it was told.
static void peer() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) _exit(4);
    if (fork() == 0) {
        close(ends[0]);
        for (int ms; read(ends[1], &ms, sizeof ms) == sizeof ms;) {
            usleep(static_cast<useconds_t>(ms) * 1000);
            if (write(ends[1], &ms, sizeof ms) < 0) break;
        }
        _exit(0);
    }
    close(ends[1]);
    peer_fd = ends[0];
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    truth = std::fopen(argv[1], "w");
    auto end = steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(atof(argv[2])));
    kind = argv[3];
    for (int i = 4; i < argc; i++) {
        if (!std::strcmp(argv[i], "fixed")) fixed_ = true;
        std::sscanf(argv[i], "hold=%ld", &hold_ms);
    }
    peer();
    Pool pool(10);
    std::thread([] {
        prctl(PR_SET_NAME, "gc#11");
        for (;;) {
            std::this_thread::sleep_for(milliseconds(520));
            if (kind == "convoy") silo::oat_convoy();
            else silo::rye_rebuild();
        }
    }).detach();
    for (int turn = 0; steady_clock::now() < end; turn++) {
        auto now = steady_clock::now();
        pool.submit([turn, now] { request(turn % 10, now); });
        std::this_thread::sleep_for(microseconds(900));
    }
    _exit(0);
}
