// a thread per client; each request appends a line to a journal under a std::mutex. Faults: turn (every 2.9 s the request
// that finds the journal due turns it over under the mutex: flush of the whole file's dirty pages, rename, new file, fsync of
// the folder), again (every 2.6 s the backend is busy for 150 ms; a request then retries, sleeping 60 ms between attempts).
// Mended: only the swap of the descriptor under the mutex, the rest by `cork`; a busy backend is answered from what is known.
#include "../outside2/ox.h"
#include <condition_variable>
#include <string>
#include <mutex>
#include <thread>
static std::mutex pen, bell;
static std::condition_variable rung;
static int fd = -1, old_fd = -1;
static double due;
static std::string at(const char *n) {
    return std::string(O.dir) + "/" + n;
}
NOINL void fer_settle(int f) { // the journal of the last seconds reaches the disk, and its new name
    fsync(f);
    rename(at("day.log").c_str(), at("day.old").c_str());
    int d = open(O.dir, O_RDONLY | O_DIRECTORY);
    fsync(d);
    close(d);
    ex_sink++;
}
static int fresh(const char *n) {
    return open(at(n).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
}
NOINL void fer_turn() {
    due = ex_now() + 2.9;
    if (ex_is("turn")) {
        fer_settle(fd);
        close(fd);
        fd = fresh("day.log");
    } else {
        std::lock_guard<std::mutex> g(bell);
        old_fd = fd;
        fd = fresh("day.next");
        rung.notify_one();
    }
    ex_sink++;
}
NOINL void fer_line(uint64_t id) {
    static char b[256 << 10];
    std::lock_guard<std::mutex> g(pen);
    b[id % sizeof b]++;
    if (write(fd, b, ex_is("again") ? 200 : sizeof b) < 0)
        exit(7);
    if (!ex_is("again") && ex_now() > due)
        fer_turn();
}
static bool busy() {
    return ex_is("again") && (long)(ex_now() * 1e3) % 2600 < 150;
}
NOINL void fer_again(int *n) {
    ex_sleep_ms(60);
    ++*n;
}
NOINL void fer_inquire(uint64_t id) {
    for (int n = 0; busy() && n < 5;)
        fer_again(&n);
    ex_sink += id;
}
static void rivet(int s) {
    ex_name("rivet");
    ex_nodelay(s);
    exreq q;
    while (!ex_full(s, &q, sizeof q, 0)) {
        EX_BURN_US(O.work_us);
        fer_inquire(q.id);
        fer_line(q.id);
        if (ex_full(s, &q, sizeof q, 1))
            break;
    }
    close(s);
}
static void cork() {
    ex_name("cork");
    for (;;) {
        std::unique_lock<std::mutex> g(bell);
        rung.wait(g, [] { return old_fd >= 0; });
        int f = old_fd;
        old_fd = -1;
        g.unlock();
        fer_settle(f);
        close(f);
        rename(at("day.next").c_str(), at("day.log").c_str());
    }
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 110, 200, 10);
    int l = ex_listen(O.port);
    fd = fresh("day.log");
    due = ex_now() + 3;
    std::thread(cork).detach();
    ex_load("keep", 0, 0);
    for (;;)
        std::thread(rivet, accept(l, 0, 0)).detach();
}
