// Four workers on a deque and a std::condition_variable, a connection for each request, which searches a sorted list
// under a std::shared_mutex. --fault sort: every ~2.3 s a builder sorts the list with the mutex exclusively. Healthy:
// it sorts a copy, at nice 10, and swaps. --fault plain: without the builder, beside processes that use every CPU or
// under a CPU quota.
#include "../../common/service.h"
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <sys/resource.h>
#include <thread>
#include <vector>

static std::mutex queue_mutex;
static std::condition_variable queue_filled;
static std::deque<int> queue;
static std::shared_mutex list_mutex;
static std::vector<uint64_t> list;
static uint64_t seed = 88172645463325252ull;

NOINLINE void shuffle_entries(std::vector<uint64_t> &entries) {
    for (auto &entry : entries) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        entry = seed;
    }
}

NOINLINE size_t arrange_entries(std::vector<uint64_t> &entries) {
    std::sort(entries.begin(), entries.end());
    use_result(entries[0]);
    return entries.size();
}

static void rebuild_list() {
    name_thread("list-builder");
    std::vector<uint64_t> next(list.size());
    if (!is_variant("sort"))
        setpriority(PRIO_PROCESS, gettid(), 10);
    for (;;) {
        sleep_ms(2150);
        shuffle_entries(next);
        if (!is_variant("sort"))
            arrange_entries(next);
        std::unique_lock<std::shared_mutex> guard(list_mutex);
        list.swap(next);
        if (is_variant("sort"))
            arrange_entries(list);
    }
}

NOINLINE void search_list(uint64_t id) {
    burn_us(settings.work_us);
    std::shared_lock<std::shared_mutex> guard(list_mutex);
    use_result(std::lower_bound(list.begin(), list.end(), id << 40) - list.begin());
}

static void work() {
    name_thread("worker");
    for (;;) {
        std::unique_lock<std::mutex> guard(queue_mutex);
        queue_filled.wait(guard, [] { return !queue.empty(); });
        int fd = queue.front();
        queue.pop_front();
        guard.unlock();
        request request;
        if (read_request(fd, &request)) {
            search_list(request.id);
            send_answer(fd, &request);
        }
        close(fd);
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 120, 300, 10);
    list.resize(1600000);
    shuffle_entries(list);
    arrange_entries(list);
    int listener = listen_on(settings.port);
    for (int i = 0; i < 4; i++)
        std::thread(work).detach();
    if (!is_variant("plain"))
        std::thread(rebuild_list).detach();
    start_load("connect", 0, 0);
    for (;;) {
        int fd = accept_connection(listener);
        {
            std::lock_guard<std::mutex> guard(queue_mutex);
            queue.push_back(fd);
        }
        queue_filled.notify_one();
    }
}
