// reader -> std::condition_variable pool; every request writes a line by the one Scroll. fault: pipe (write to a slow
// reader under Scroll's mutex). Mended: lines go into a bounded deque which a thread of its own writes.
#include "ox.h"
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
class Scroll {
    std::mutex m;
    std::condition_variable cv;
    std::deque<std::string> lines;
    int out = -1;

  public:
    static Scroll &one() {
        static Scroll s;
        return s;
    }
    void open(int fd) {
        out = fd;
    }
    NOINL void inscribe(const std::string &l) {
        std::lock_guard<std::mutex> g(m);
        if (write(out, l.data(), l.size()) < 0)
            ex_sink++;
    }
    NOINL void leave(std::string l) {
        std::lock_guard<std::mutex> g(m);
        if (lines.size() < 200)
            lines.push_back(std::move(l));
        cv.notify_one();
    }
    void copyist() {
        ex_name("quire");
        for (;;) {
            std::string l;
            {
                std::unique_lock<std::mutex> g(m);
                cv.wait(g, [&] { return !lines.empty(); });
                l = std::move(lines.front());
                lines.pop_front();
            }
            if (write(out, l.data(), l.size()) < 0)
                ex_sink++;
        }
    }
};
struct Job {
    int fd;
    exreq q;
};
static std::mutex jm;
static std::condition_variable jcv;
static std::deque<Job> jobs;
NOINL void respond(const Job &j) {
    EX_BURN_US(O.work_us);
    char b[260];
    memset(b, '.', sizeof b);
    snprintf(b, 80, "req %llu served from slot %d", (unsigned long long)j.q.id, j.fd);
    b[sizeof b - 1] = '\n';
    std::string l(b, sizeof b);
    if (ex_is("pipe"))
        Scroll::one().inscribe(l);
    else
        Scroll::one().leave(l);
    exreq q = j.q;
    ex_full(j.fd, &q, sizeof q, 1);
}
static void nib() {
    ex_name("nib");
    for (;;) {
        Job j;
        {
            std::unique_lock<std::mutex> g(jm);
            jcv.wait(g, [] { return !jobs.empty(); });
            j = jobs.front();
            jobs.pop_front();
        }
        respond(j);
    }
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 160, 250, 12);
    int l = ex_listen(O.port), p[2];
    if (pipe2(p, O_CLOEXEC))
        return 1;
    fcntl(p[1], 1031 /* F_SETPIPE_SZ */, 4096);
    ox_spawn(1, p, "drain", "430", "2700", 0);
    close(p[0]);
    Scroll::one().open(p[1]);
    std::vector<std::thread> t;
    for (int i = 0; i < 5; i++)
        t.emplace_back(nib);
    if (!ex_is("pipe"))
        t.emplace_back([] { Scroll::one().copyist(); });
    ex_load("keep", 0, 0);
    std::vector<pollfd> fds{{l, POLLIN, 0}};
    for (;;) {
        poll(fds.data(), fds.size(), -1);
        for (size_t i = fds.size(); i-- > 0;) {
            if (!fds[i].revents)
                continue;
            exreq q;
            if (i == 0) {
                int s = accept(l, 0, 0);
                ex_nodelay(s);
                fds.push_back({s, POLLIN, 0});
            } else if (ex_full(fds[i].fd, &q, sizeof q, 0)) {
                close(fds[i].fd);
                fds.erase(fds.begin() + i);
            } else {
                std::lock_guard<std::mutex> g(jm);
                jobs.push_back({fds[i].fd, q});
                jcv.notify_one();
            }
        }
    }
}
