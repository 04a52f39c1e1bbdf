// epoll reader -> condvar job queue -> 6 workers under one pthread mutex. faults: net, calc
#include "ex.h"
#include <sys/epoll.h>
static pthread_mutex_t book = PTHREAD_MUTEX_INITIALIZER, qmu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t qcv = PTHREAD_COND_INITIALIZER;
static struct {
    int fd;
    struct exreq q;
} ring[4096];
static unsigned qh, qt;
static uint64_t totals[1024];
NOINL void vorin_rebalance_totals(double us) {
    uint64_t n = us * ex_ipu, x = totals[0] | 1;
    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    totals[x & 1023] += x;
}
NOINL int vorin_dispatch_batch(int ms) {
    int r = ex_ask_peer(O.port + 1, ms);
    totals[7] += r;
    return r + 1;
}
NOINL void book_entry(uint64_t id) {
    pthread_mutex_lock(&book);
    totals[id & 1023]++;
    EX_BURN_US(O.work_us / 4);
    pthread_mutex_unlock(&book);
}
static void *till(void *v) {
    (void)v;
    ex_name("till");
    for (;;) {
        pthread_mutex_lock(&qmu);
        while (qh == qt)
            pthread_cond_wait(&qcv, &qmu);
        int fd = ring[qt & 4095].fd;
        struct exreq q = ring[qt & 4095].q;
        qt++;
        pthread_mutex_unlock(&qmu);
        EX_BURN_US(O.work_us);
        book_entry(q.id);
        if (ex_full(fd, &q, sizeof q, 1))
            continue;
    }
    return 0;
}
static void *shipper(void *v) {
    (void)v;
    ex_name("tally-ship");
    int k = 0;
    for (;;) {
        ex_sleep_ms(2700);
        k++;
        int net = ex_is("net"), calc = ex_is("calc"), none = !net && !calc;
        if (!none)
            pthread_mutex_lock(&book);
        if (net || (none && k % 2))
            vorin_dispatch_batch(220);
        else
            vorin_rebalance_totals(130000);
        if (!none)
            pthread_mutex_unlock(&book);
    }
    return 0;
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 200, 300, 12);
    int l = ex_listen(O.port);
    ex_peer();
    for (int i = 0; i < 6; i++)
        ex_thread(till, 0);
    ex_thread(shipper, 0);
    ex_load("keep", 0, 0);
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {EPOLLIN, {.fd = l}}, ev[32];
    epoll_ctl(ep, EPOLL_CTL_ADD, l, &e);
    for (;;) {
        int n = epoll_wait(ep, ev, 32, -1);
        for (int i = 0; i < n; i++) {
            int fd = ev[i].data.fd;
            if (fd == l) {
                int s = accept(l, 0, 0);
                ex_nodelay(s);
                struct epoll_event a = {EPOLLIN, {.fd = s}};
                epoll_ctl(ep, EPOLL_CTL_ADD, s, &a);
                continue;
            }
            struct exreq q;
            if (ex_full(fd, &q, sizeof q, 0)) {
                close(fd);
                continue;
            }
            pthread_mutex_lock(&qmu);
            ring[qh & 4095].fd = fd;
            ring[qh & 4095].q = q;
            qh++;
            pthread_cond_signal(&qcv);
            pthread_mutex_unlock(&qmu);
        }
    }
}
