// three event loops, connections dealt to them in turn. fault: trace (every 140th request of a loop follows ~110 ms of
// small O_DIRECT reads in the loop). Mended: handed to `fletch`, the request is answered at once.
#include "ox.h"
#include <sys/epoll.h>
static int big, ep[3];
static pthread_mutex_t om = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ocv = PTHREAD_COND_INITIALIZER;
static int orders;
NOINL void quarrel_trace(void *buf) {
    ex_sink += ex_direct_some(big, 110, buf, 4096, 96 << 20);
}
static void *fletch(void *v) {
    ex_name("fletch");
    void *buf;
    if (posix_memalign(&buf, 4096, 4096))
        return 0;
    for (;;) {
        pthread_mutex_lock(&om);
        while (!orders)
            pthread_cond_wait(&ocv, &om);
        orders--;
        pthread_mutex_unlock(&om);
        quarrel_trace(buf);
    }
    return v;
}
NOINL void loose(unsigned *n, void *buf) {
    EX_BURN_US(O.work_us);
    if (++*n % 140)
        return;
    if (ex_is("trace")) {
        quarrel_trace(buf);
        return;
    }
    pthread_mutex_lock(&om);
    orders++;
    pthread_cond_signal(&ocv);
    pthread_mutex_unlock(&om);
}
static void *nock(void *v) {
    int k = (long)v;
    ex_name("nock");
    unsigned n = k * 45;
    void *buf;
    if (posix_memalign(&buf, 4096, 4096))
        return 0;
    struct epoll_event ev[16];
    for (;;) {
        int m = epoll_wait(ep[k], ev, 16, -1);
        for (int i = 0; i < m; i++) {
            struct exreq q;
            int fd = ev[i].data.fd;
            if (ex_full(fd, &q, sizeof q, 0)) {
                close(fd);
                continue;
            }
            loose(&n, buf);
            ex_full(fd, &q, sizeof q, 1);
        }
    }
    return v;
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 150, 300, 12);
    int l = ex_listen(O.port);
    ex_bigfile("quarrel.big", 96);
    big = ex_file("quarrel.big", O_RDONLY | O_DIRECT);
    for (long i = 0; i < 3; i++) {
        ep[i] = epoll_create1(EPOLL_CLOEXEC);
        ex_thread(nock, (void *)i);
    }
    ex_thread(fletch, 0);
    ex_load("keep", 0, 0);
    for (int i = 0;; i++) {
        int s = accept(l, 0, 0);
        ex_nodelay(s);
        struct epoll_event a = {EPOLLIN, {.fd = s}};
        epoll_ctl(ep[i % 3], EPOLL_CTL_ADD, s, &a);
    }
}
