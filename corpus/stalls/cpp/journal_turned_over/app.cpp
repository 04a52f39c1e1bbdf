// A thread for each client; a request asks the backend and appends 256 KB to a journal under a std::mutex. --fault
// rotate: every 2.9 s the request that finds it due archives the journal with the mutex: fsync of all that is dirty,
// rename, fsync of the folder. --fault retry: in 150 ms of every 2.6 s the backend is busy, and a request sleeps 60 ms
// between attempts. Healthy: the descriptor is swapped under the mutex, an archiver does the rest; the backend is never
// busy.
#include "../../common/service.h"
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

static std::mutex journal_mutex, archive_mutex;
static std::condition_variable archive_due;
static int journal = -1, old_journal = -1;
static double rotate_at;

static std::string path_of(const char *name) {
    return std::string(settings.dir) + "/" + name;
}

static int new_journal(const char *name) {
    return open_file(name, O_RDWR | O_TRUNC | O_APPEND);
}

NOINLINE void archive_journal(int fd) {
    fsync(fd);
    rename(path_of("journal").c_str(), path_of("journal.old").c_str());
    int folder = open(settings.dir, O_RDONLY | O_DIRECTORY);
    fsync(folder);
    close(folder);
    use_result(1);
}

NOINLINE void rotate_journal() {
    rotate_at = now_s() + 2.9;
    if (is_variant("rotate")) {
        archive_journal(journal);
        close(journal);
        journal = new_journal("journal");
    } else {
        std::lock_guard<std::mutex> guard(archive_mutex);
        old_journal = journal;
        journal = new_journal("journal.next");
        archive_due.notify_one();
    }
    use_result(1);
}

NOINLINE void append_entry(uint64_t id) {
    static char entry[256 << 10];
    std::lock_guard<std::mutex> guard(journal_mutex);
    entry[id % sizeof entry]++;
    if (write(journal, entry, is_variant("retry") ? 200 : sizeof entry) < 0)
        exit(7);
    if (!is_variant("retry") && now_s() > rotate_at)
        rotate_journal();
}

static bool backend_is_busy() {
    return is_variant("retry") && (long)(now_s() * 1e3) % 2600 < 150;
}

NOINLINE void pause_and_retry(int *attempts) {
    sleep_ms(60);
    ++*attempts;
}

NOINLINE void inquire_backend(uint64_t id) {
    for (int attempts = 0; backend_is_busy() && attempts < 5;)
        pause_and_retry(&attempts);
    use_result(id);
}

static void handle_request(uint64_t id) {
    burn_us(settings.work_us);
    inquire_backend(id);
    append_entry(id);
}

static void archive_journals() {
    name_thread("archiver");
    for (;;) {
        std::unique_lock<std::mutex> guard(archive_mutex);
        archive_due.wait(guard, [] { return old_journal >= 0; });
        int fd = old_journal;
        old_journal = -1;
        guard.unlock();
        archive_journal(fd);
        close(fd);
        rename(path_of("journal.next").c_str(), path_of("journal").c_str());
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 110, 200, 10);
    int listener = listen_on(settings.port);
    journal = new_journal("journal");
    rotate_at = now_s() + 3;
    std::thread(archive_journals).detach();
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", handle_request);
}
