// workers share one epoll (EPOLLONESHOT); a request needs one of two berths (sem_t). faults: nap (ropewalk takes both
// berths and sleeps 160 ms), spin (takes both and computes 120 ms). Mended: the same with no berth taken.
#include "ox.h"
#include <semaphore.h>
#include <sys/epoll.h>
static sem_t berth;
static int ep;
static uint64_t tally[256];
NOINL void cord_mellow(double ms) {
    ex_sleep_ms(ms);
    tally[3]++;
}
NOINL void cord_twist(double us) {
    uint64_t x = ex_spin(us * ex_ipu, tally[1]);
    tally[x & 255] += x;
}
NOINL void moor(uint64_t id) {
    while (sem_wait(&berth))
        ;
    tally[id & 255]++;
    EX_BURN_US(O.work_us / 4);
    sem_post(&berth);
}
static void *ropewalk(void *v) {
    ex_name("ropewalk");
    for (;;) {
        ex_sleep_ms(2300);
        int nap = ex_is("nap"), spin = ex_is("spin");
        if (nap || spin)
            for (int i = 0; i < 2; i++)
                while (sem_wait(&berth))
                    ;
        if (nap || !spin)
            cord_mellow(160);
        if (spin || !nap)
            cord_twist(120000);
        if (nap || spin)
            for (int i = 0; i < 2; i++)
                sem_post(&berth);
    }
    return v;
}
static void *gull(void *v) {
    ex_name("gull");
    int fd = ex_file("gull.log", O_WRONLY | O_TRUNC);
    for (;;) { // nobody waits for it
        ex_sleep_ms(700);
        if (write(fd, tally, 256) < 0)
            break;
        fdatasync(fd);
    }
    return v;
}
static void *hand(void *v) {
    ex_name("hand");
    for (;;) {
        struct epoll_event e;
        if (epoll_wait(ep, &e, 1, -1) != 1)
            continue;
        int fd = e.data.fd;
        struct exreq q;
        if (ex_full(fd, &q, sizeof q, 0)) {
            close(fd);
            continue;
        }
        EX_BURN_US(O.work_us);
        moor(q.id);
        ex_full(fd, &q, sizeof q, 1);
        struct epoll_event a = {EPOLLIN | EPOLLONESHOT, {.fd = fd}};
        epoll_ctl(ep, EPOLL_CTL_MOD, fd, &a);
    }
    return v;
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 180, 300, 12);
    int l = ex_listen(O.port);
    sem_init(&berth, 0, 2);
    ep = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < 6; i++)
        ex_thread(hand, 0);
    ex_thread(ropewalk, 0);
    ex_thread(gull, 0);
    ex_load("keep", 0, 0);
    for (;;) {
        int s = accept(l, 0, 0);
        ex_nodelay(s);
        struct epoll_event a = {EPOLLIN | EPOLLONESHOT, {.fd = s}};
        epoll_ctl(ep, EPOLL_CTL_ADD, s, &a);
    }
}
