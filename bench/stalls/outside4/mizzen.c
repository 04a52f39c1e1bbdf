// one epoll loop over a big in-memory table (like a cache server that snapshots by fork). Faults: fork (every 2.8 s the
// loop forks; copying the page tables of 2 GB stops it), dial (every 2.7 s a request's handler connects, blocking, to a
// neighbour whose listen queue is full: 250 ms until its send timeout). Mended: the snapshot is asked of a helper process
// forked while small; the connect is non-blocking and given up from the loop.
#include "../outside2/ox.h"
#include <sys/epoll.h>
#include <sys/wait.h>
static size_t size = (size_t)2 << 30;
static uint64_t *hold;
static int helper = -1, full, pending = -1;
static double due, give_up;
NOINL void miz_stow(void) {
    pid_t p = fork();
    if (p == 0) {
        ex_sleep_ms(120);
        _exit(0);
    }
    ex_sink += p;
}
static struct sockaddr_in there(void) {
    struct sockaddr_in a;
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_port = htons(O.port + 1);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}
NOINL void miz_hail(int block) {
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (block ? 0 : SOCK_NONBLOCK), 0);
    struct timeval tv = {0, 250000};
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
    struct sockaddr_in a = there();
    ex_sink += connect(s, (struct sockaddr *)&a, sizeof a) + 2;
    if (block)
        close(s);
    else
        pending = s, give_up = ex_now() + .25;
}
NOINL void miz_take(uint64_t id) {
    for (int i = 0; i < 4; i++)
        hold[(id * 2654435761u + i * 40503u) % (size / 8)] += id;
}
NOINL void miz_serve(int fd) {
    struct exreq q;
    if (ex_full(fd, &q, sizeof q, 0)) {
        close(fd);
        return;
    }
    EX_BURN_US(O.work_us);
    miz_take(q.id);
    if (ex_now() > due) {
        due = ex_now() + 2.7;
        if (ex_is("dial"))
            miz_hail(1);
        else if (ex_is("none")) {
            miz_hail(0);
            if (write(helper, "s", 1) != 1)
                exit(9);
        }
    }
    ex_full(fd, &q, sizeof q, 1);
}
static void *fill(void *v) {
    uint64_t *p = v;
    for (size_t i = 0; i < size / 16; i += 512)
        p[i] = i + 1;
    return 0;
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 180, 250, 10);
    int l = ex_listen(O.port), pp[2];
    signal(SIGCHLD, SIG_IGN);
    if (pipe(pp))
        return 9;
    pid_t hp = fork();
    if (hp == 0) {
        char b;
        close(pp[1]);
        ex_name("mate");
        while (read(pp[0], &b, 1) == 1)
            ex_sleep_ms(120);
        _exit(0);
    }
    close(pp[0]);
    helper = pp[1];
    fcntl(helper, F_SETFD, FD_CLOEXEC);
    struct sockaddr_in a = there();
    full = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(full, (struct sockaddr *)&a, sizeof a) || listen(full, 0))
        return 8;
    for (int i = 0; i < 3; i++)
        connect(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), (struct sockaddr *)&a, sizeof a);
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {EPOLLIN, {.fd = l}}, r[32];
    epoll_ctl(ep, EPOLL_CTL_ADD, l, &e);
    if (ex_is("dial"))
        size = (size_t)64 << 20;
    hold = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(hold, size, MADV_NOHUGEPAGE);
    pthread_t t = ex_thread(fill, hold + size / 16);
    fill(hold);
    pthread_join(t, 0);
    ex_load("keep", 0, 0);
    double snap = ex_now() + 2.8;
    due = ex_now() + 2;
    for (;;) {
        int n = epoll_wait(ep, r, 32, 50);
        for (int i = 0; i < n; i++) {
            int fd = r[i].data.fd;
            if (fd == l) {
                e.data.fd = accept4(l, 0, 0, SOCK_CLOEXEC);
                ex_nodelay(e.data.fd);
                epoll_ctl(ep, EPOLL_CTL_ADD, e.data.fd, &e);
            } else
                miz_serve(fd);
        }
        if (pending >= 0 && ex_now() > give_up)
            close(pending), pending = -1;
        if (ex_is("fork") && ex_now() > snap) {
            snap += 2.8;
            miz_stow();
        }
    }
}
