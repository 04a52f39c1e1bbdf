// no lock: 4 workers, each with its own epoll; main accepts and deals out. faults: oncpu, down, bigalloc (and
// hogs/quota from outside)
#include "ex.h"
#include <sys/epoll.h>
#include <thread>
#include <vector>
static int eps[4];
NOINL void zimmer_resolve_graph(double us) {
    uint64_t n = us * ex_ipu, x = 5;
    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    ex_sink += x;
}
NOINL int zimmer_fetch_quote(int ms) {
    int r = ex_ask_peer(O.port + 1, ms);
    ex_sink += r;
    return r + 1;
}
NOINL void zimmer_build_canvas(size_t n) {
    char *p = (char *)mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, n, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < n; i += 4096)
        p[i] = i;
    ex_sink += p[n / 2];
    munmap(p, n);
}
NOINL void zimmer_handle(uint64_t id) {
    EX_BURN_US(O.work_us);
    bool odd = id % 50 == 17;
    if (ex_is("oncpu") && odd)
        zimmer_resolve_graph(90000);
    else if (ex_is("down") && odd)
        zimmer_fetch_quote(160);
    else if (ex_is("bigalloc") && odd)
        zimmer_build_canvas((size_t)140 << 20);
}
static void run(int k) {
    char n[16];
    sprintf(n, "zim-%d", k);
    ex_name(n);
    epoll_event ev[16];
    for (;;) {
        int m = epoll_wait(eps[k], ev, 16, -1);
        for (int i = 0; i < m; i++) {
            exreq q;
            int fd = ev[i].data.fd;
            if (ex_full(fd, &q, sizeof q, 0)) {
                close(fd);
                continue;
            }
            zimmer_handle(q.id);
            ex_full(fd, &q, sizeof q, 1);
        }
    }
}
int main(int c, char **v) {
    ex_args(c, v, 21050, 120, 500, 8);
    int l = ex_listen(O.port);
    if (ex_is("down"))
        ex_peer();
    for (int i = 0; i < 4; i++) {
        eps[i] = epoll_create1(EPOLL_CLOEXEC);
        std::thread(run, i).detach();
    }
    ex_load("keep", 0, 0);
    for (int k = 0;; k++) {
        int s = accept(l, 0, 0);
        if (s < 0)
            continue;
        ex_nodelay(s);
        epoll_event e;
        e.events = EPOLLIN;
        e.data.fd = s;
        epoll_ctl(eps[k % 4], EPOLL_CTL_ADD, s, &e);
    }
}
