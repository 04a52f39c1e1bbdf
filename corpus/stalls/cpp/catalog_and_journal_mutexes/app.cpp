// A pool of seven threads on a deque and a std::condition_variable; requests take the catalog's mutex. Every 2.9 s a
// flusher wakes a relay, which takes the catalog's mutex and then the journal's. --fault fsync: the flusher has the
// journal's mutex meanwhile over 180 ms of small fsyncs. --fault network: over 250 ms of a round trip. So requests wait
// for the relay, and the relay for the flusher. Healthy: the flusher does both, in turn, without the mutex.
#include "../../common/service.h"
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

static std::mutex catalog, journal, queue_mutex, wake_mutex;
static std::condition_variable queue_filled, woken;
static std::deque<int> queue;
static int journal_file;
static uint64_t sequence[64];
static bool wake_relay;

NOINLINE int seal_segment(double ms) {
    int n = sync_for_ms(journal_file, ms);
    sequence[1] += n;
    return n + 1;
}

NOINLINE int ask_upstream(int ms) {
    int result = ask_peer(ms);
    sequence[2] += result;
    return result + 1;
}

NOINLINE void relay_entry() {
    std::lock_guard<std::mutex> first(catalog);
    std::lock_guard<std::mutex> second(journal);
    sequence[3]++;
}

NOINLINE void serve_client(int fd) {
    request request;
    if (read_request(fd, &request)) {
        burn_us(settings.work_us);
        {
            std::lock_guard<std::mutex> guard(catalog);
            sequence[request.id % 32]++;
            burn_us(60);
        }
        send_answer(fd, &request);
    }
    close(fd);
}

static void work() {
    name_thread("pool-worker");
    for (;;) {
        std::unique_lock<std::mutex> guard(queue_mutex);
        queue_filled.wait(guard, [] { return !queue.empty(); });
        int fd = queue.front();
        queue.pop_front();
        guard.unlock();
        serve_client(fd);
    }
}

static void relay_entries() {
    name_thread("entry-relay");
    for (;;) {
        {
            std::unique_lock<std::mutex> guard(wake_mutex);
            woken.wait(guard, [] { return wake_relay; });
            wake_relay = false;
        }
        sleep_ms(15);
        relay_entry();
    }
}

static void flush_journal() {
    name_thread("journal-flush");
    for (int turn = 0;; turn++) {
        sleep_ms(2900);
        {
            std::lock_guard<std::mutex> guard(wake_mutex);
            wake_relay = true;
        }
        woken.notify_one();
        if (is_variant("fsync")) {
            std::lock_guard<std::mutex> guard(journal);
            seal_segment(180);
        } else if (is_variant("network")) {
            std::lock_guard<std::mutex> guard(journal);
            ask_upstream(250);
        } else if (turn % 2) {
            seal_segment(180);
        } else {
            ask_upstream(250);
        }
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 180, 250, 9);
    journal_file = open_file("journal", O_RDWR);
    int listener = listen_on(settings.port);
    start_peer("peer");
    for (int i = 0; i < 7; i++)
        std::thread(work).detach();
    std::thread(relay_entries).detach();
    std::thread(flush_journal).detach();
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
