// one epoll set shared by 8 workers (ONESHOT). faults: each (fsync by the request itself, many small), group (group
// commit)
#include "ex.h"
#include <sys/epoll.h>
static int ep, l, wf, wf2;
static pthread_mutex_t wmu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t dirty = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static uint64_t want, have, stat_;
NOINL int sedge_sync_log(double ms) {
    int n = ex_sync_some(wf, ms);
    stat_ += n;
    return n + 1;
}
NOINL int sedge_write_record(double ms) {
    int n = ex_sync_some(wf2, ms);
    stat_ += n;
    return n + 1;
}
NOINL void sedge_commit(void) {
    pthread_mutex_lock(&wmu);
    uint64_t my = ++want;
    pthread_cond_signal(&dirty);
    while (have < my)
        pthread_cond_wait(&done, &wmu);
    pthread_mutex_unlock(&wmu);
}
static void *committer(void *v) {
    (void)v;
    ex_name("sdg-commit");
    double next = ex_now() + 3;
    char b[512] = {0};
    for (;;) {
        pthread_mutex_lock(&wmu);
        while (have == want)
            pthread_cond_wait(&dirty, &wmu);
        uint64_t w = want;
        pthread_mutex_unlock(&wmu);
        if (pwrite(wf, b, sizeof b, 0) < 0) {
        }
        if (ex_is("group") && ex_now() > next) {
            sedge_sync_log(140);
            next = ex_now() + 2.8;
        }
        pthread_mutex_lock(&wmu);
        have = w;
        pthread_cond_broadcast(&done);
        pthread_mutex_unlock(&wmu);
    }
    return 0;
}
static void *lazy(void *v) {
    (void)v;
    ex_name("sdg-lazy");
    for (;;) {
        ex_sleep_ms(2800);
        if (ex_is("none"))
            sedge_write_record(140);
    }
    return 0;
}
static void *worker(void *v) {
    (void)v;
    ex_name("sdg-work");
    for (;;) {
        struct epoll_event e;
        if (epoll_wait(ep, &e, 1, -1) < 1)
            continue;
        int fd = e.data.fd;
        if (fd == l) {
            int s = accept(l, 0, 0);
            if (s >= 0) {
                ex_nodelay(s);
                struct epoll_event a = {EPOLLIN | EPOLLONESHOT, {.fd = s}};
                epoll_ctl(ep, EPOLL_CTL_ADD, s, &a);
            }
        } else {
            struct exreq q;
            if (ex_full(fd, &q, sizeof q, 0)) {
                close(fd);
                continue;
            }
            EX_BURN_US(O.work_us);
            if (!ex_is("each"))
                sedge_commit();
            else if (q.id % 40 == 11)
                sedge_write_record(90);
            ex_full(fd, &q, sizeof q, 1);
        }
        struct epoll_event a = {EPOLLIN | EPOLLONESHOT, {.fd = fd}};
        epoll_ctl(ep, EPOLL_CTL_MOD, fd, &a);
    }
    return 0;
}
int main(int c, char **v) {
    ex_args(c, v, 21060, 140, 300, 10);
    wf = ex_file("sedge.wal", O_RDWR);
    wf2 = ex_file("sedge.rec", O_RDWR);
    l = ex_listen(O.port);
    ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {EPOLLIN | EPOLLONESHOT, {.fd = l}};
    epoll_ctl(ep, EPOLL_CTL_ADD, l, &e);
    ex_thread(committer, 0);
    ex_thread(lazy, 0);
    for (int i = 0; i < 8; i++)
        ex_thread(worker, 0);
    ex_load("keep", 0, 0);
    for (;;)
        pause();
}
