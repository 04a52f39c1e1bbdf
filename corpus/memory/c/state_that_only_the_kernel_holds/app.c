// The only pointer to a connection's or a timer's state is in the kernel. Modes: epoll (connections stay open), timer
// (timers stay armed), closed (connections are closed, their state stays), closed_and_freed (healthy).
#include "../common.h"
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

struct client {
    int fd;
    char inbox[6000];
};

NOINLINE static struct client *accept_client(int fd) {
    struct client *c = calloc(1, sizeof *c);
    c->fd = fd;
    memset(c->inbox, 'c', sizeof c->inbox);
    return c;
}

static void serve_client(int poll, int closes, int frees) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = accept_client(ends[0])};
    epoll_ctl(poll, EPOLL_CTL_ADD, ends[0], &event);
    if (!closes)
        return;
    if (write(ends[1], "bye", 3) == 3 && epoll_wait(poll, &event, 1, 0) == 1) {
        struct client *c = event.data.ptr;
        close(c->fd);
        if (frees)
            free(c);
    }
    close(ends[1]);
}

NOINLINE static void start_deadline(int n) {
    char *state = memset(malloc(5000), n, 5000);
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_ptr = state};
    struct itimerspec when = {{0, 0}, {100000, 0}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &how, &timer) == 0)
        timer_settime(timer, 0, &when, NULL);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "epoll";
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    int poll = epoll_create1(0);
    ready();
    for (int n = 0;; n++) {
        if (!strcmp(mode, "timer"))
            start_deadline(n);
        else
            serve_client(poll, strcmp(mode, "epoll"), !strcmp(mode, "closed_and_freed"));
        serve_requests(40);
        nap(15);
    }
}
