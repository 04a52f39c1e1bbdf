// C++20: requests come by a pipe; eight workers wait for jobs at a std::counting_semaphore. A thread updates the price
// list now and then. --fault timed: it sleeps 45 ms with a std::timed_mutex, which requests take with a timeout.
// --fault permit: it has the only permit, a number under a std::mutex and a std::condition_variable, over a round trip
// of 45 ms. --fault turns: it takes a std::mutex 14 times in a row, 1.5 ms each, and a request 12 times for an
// instant. --fault sort: it sorts 524,288 prices with a std::shared_mutex, ~40 ms. Healthy: requests take all of
// these, and the thread does all of it, in turn, without them.
#include "../../common/service.h"
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <thread>
#include <vector>

static std::counting_semaphore<> waiting(0);
static std::mutex jobs_mutex, totals_mutex, permit_mutex;
static std::deque<request> jobs;
static std::timed_mutex discounts_mutex;
static std::condition_variable permit_returned;
static int permits = 1, answers[2], requests[2];
static std::shared_mutex prices_mutex;
static std::vector<uint32_t> prices(1 << 19), fresh_prices(1 << 19);
static uint64_t total;

static void take_permit() {
    std::unique_lock<std::mutex> guard(permit_mutex);
    permit_returned.wait(guard, [] { return permits > 0; });
    permits--;
}

static void return_permit() {
    {
        std::lock_guard<std::mutex> guard(permit_mutex);
        permits++;
    }
    permit_returned.notify_one();
}

NOINLINE void renew_discounts(bool locked) {
    std::unique_lock<std::timed_mutex> guard(discounts_mutex, std::defer_lock);
    if (locked)
        guard.lock();
    sleep_ms(45);
    if (!locked)
        guard.lock();
}

NOINLINE void fetch_rates(bool locked) {
    if (locked)
        take_permit();
    if (ask_peer(45))
        exit(4);
    if (!locked)
        take_permit();
    return_permit();
}

NOINLINE void add_up_totals(bool locked) {
    for (int i = 0; i < 14; i++) {
        std::unique_lock<std::mutex> guard(totals_mutex, std::defer_lock);
        if (locked)
            guard.lock();
        burn_us(1500);
        if (!locked)
            guard.lock();
        total++;
    }
}

NOINLINE void sort_prices(bool locked) {
    static uint32_t seed = 1;
    std::unique_lock<std::shared_mutex> guard(prices_mutex, std::defer_lock);
    if (locked)
        guard.lock();
    for (auto &price : fresh_prices)
        price = seed = seed * 1664525u + 1013904223u;
    std::sort(fresh_prices.begin(), fresh_prices.end());
    if (!locked)
        guard.lock();
    prices.swap(fresh_prices);
}

static const struct {
    const char *fault;
    void (*run)(bool locked);
    int period_ms;
} tasks[] = {{"timed", renew_discounts, 520}, {"permit", fetch_rates, 520}, {"turns", add_up_totals, 520},
             {"sort", sort_prices, 660}};

static void update_list() {
    name_thread("list-updater");
    for (unsigned turn = 0;; turn++) {
        auto &task = tasks[turn % std::size(tasks)];
        bool healthy = is_variant("none");
        if (!healthy && !is_variant(task.fault))
            continue;
        sleep_ms(task.period_ms);
        task.run(!healthy);
    }
}

NOINLINE void handle_request(uint64_t id) {
    bool healthy = is_variant("none");
    burn_us(settings.work_us);
    if (healthy || is_variant("timed")) {
        if (discounts_mutex.try_lock_for(std::chrono::seconds(3)))
            discounts_mutex.unlock();
    }
    if (healthy || is_variant("permit")) {
        take_permit();
        burn_us(3);
        return_permit();
    }
    for (int i = 0; i < 12 && (healthy || is_variant("turns")); i++) {
        std::lock_guard<std::mutex> guard(totals_mutex);
        total++;
    }
    if (healthy || is_variant("sort")) {
        std::shared_lock<std::shared_mutex> guard(prices_mutex);
        use_result(prices[id % prices.size()]);
    }
}

static void work() {
    name_thread("worker");
    for (;;) {
        waiting.acquire();
        request job;
        {
            std::lock_guard<std::mutex> guard(jobs_mutex);
            job = jobs.front();
            jobs.pop_front();
        }
        handle_request(job.id);
        send_answer(answers[1], &job);
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 900, 150, 1);
    name_thread("intake");
    if (pipe2(requests, O_CLOEXEC) || pipe2(answers, O_CLOEXEC))
        return 4;
    start_peer("peer");
    for (int i = 0; i < 8; i++)
        std::thread(work).detach();
    std::thread(update_list).detach();
    int for_load[2] = {requests[1], answers[0]};
    start_load("pipe", 2, for_load);
    close(for_load[0]);
    close(for_load[1]);
    request job;
    while (read_request(requests[0], &job)) {
        {
            std::lock_guard<std::mutex> guard(jobs_mutex);
            jobs.push_back(job);
        }
        waiting.release();
    }
    _exit(0);
}
