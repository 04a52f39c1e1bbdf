/* A server with an event loop. A request of one byte: 'f' is answered at once, 's' is handed to a worker whose jobs all
 * take 60 ms of a CPU, and answered by the loop when the worker is done. The clients are a process of their own. With
 * "fixed" the worker's jobs take 0.1 ms. With "asks" no worker is asked but an upstream, a process of its own, which
 * replies after 60 ms over a connection that is made for it. With "nested" the loop waits for a child process so long,
 * in a loop of its own; with "piped" too it has the reading end alone of the child's pipe. A stall in the log is a slow
 * answer, as the client has it. */
#include "truth.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static int port, upstream_port, jobs[2], finished, fixed, asks, nested, to_child[2], from_child[2];
static int waiting = -1, upstream = -1;

__attribute__((noinline)) static void score_rows(void) {
    for (uint64_t end = now_ns() + (fixed ? 100000 : 60000000); now_ns() < end;)
        for (int i = 0; i < 1000; i++) sink += (uint64_t)i;
}

static void *worker(void *arg) {
    int client;
    while (read(jobs[0], &client, sizeof client) == sizeof client) {
        score_rows();
        waiting = client;
        eventfd_write(finished, 1);
    }
    return arg;
}

static int called(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) exit(5);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

struct asking {
    char what;
    long every_us;
};

static void *client(void *arg) {
    struct asking *asking = arg;
    int fd = called(port);
    for (char answer;;) {
        pause_us(asking->every_us);
        uint64_t start = now_ns();
        if (write(fd, &asking->what, 1) != 1 || read(fd, &answer, 1) != 1) exit(0);
        told(asking->what, start, 20000000);
    }
}

static void be_the_clients(pid_t server) {
    struct asking fast = {'f', 3000}, slow = {'s', 250000};
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != server) exit(0);
    pthread_create(&thread, NULL, client, &fast);
    client(&slow);
}

static void be_the_upstream(pid_t server, int listener) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != server) exit(0);
    for (char byte;;) {
        int on = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (read(fd, &byte, 1) != 1) exit(0);
        pause_us(60000);
        if (write(fd, &byte, 1) != 1) exit(0);
        close(fd);
    }
}

static void be_the_child(pid_t server) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != server) exit(0);
    for (char byte; read(to_child[0], &byte, 1) == 1;) {
        pause_us(60000);
        if (write(from_child[1], &byte, 1) != 1) exit(0);
    }
}

static void watched(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

__attribute__((noinline)) static void run_tool(void) {
    char byte = 'n';
    struct epoll_event event;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    watched(epoll, from_child[0]);
    if (write(to_child[1], &byte, 1) != 1 || epoll_wait(epoll, &event, 1, -1) != 1) exit(0);
    if (read(from_child[0], &byte, 1) != 1) exit(0);
    close(epoll);
}

static void serve_slowly(int epoll, int fd) {
    if (nested) {
        run_tool();
        if (write(fd, "s", 1) != 1) exit(0);
    } else if (asks) {
        waiting = fd;
        upstream = called(upstream_port);
        watched(epoll, upstream);
        if (write(upstream, "u", 1) != 1) exit(0);
    } else if (write(jobs[1], &fd, sizeof fd) < 0) {
        exit(0);
    }
}

static void serve(int epoll, int fd) {
    char request;
    if (fd == upstream) {
        if (read(fd, &request, 1) != 1) exit(0);
        close(fd);
        upstream = -1;
        if (write(waiting, "s", 1) != 1) exit(0);
    } else if (fd == finished) {
        eventfd_t times;
        eventfd_read(finished, &times);
        if (write(waiting, "s", 1) != 1) exit(0);
    } else if (read(fd, &request, 1) != 1) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
        close(fd);
    } else if (request == 'f') {
        work_us(50);
        if (write(fd, "f", 1) != 1) exit(0);
    } else {
        serve_slowly(epoll, fd);
    }
}

static int listening(int *port) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof own;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&own, length) || listen(listener, 8)) exit(4);
    getsockname(listener, (struct sockaddr *)&own, &length);
    *port = own.sin_port;
    return listener;
}

int main(int argc, char **argv) {
    uint64_t ends = now_ns() + (uint64_t)(opened(argc, argv) * 1e9);
    int listener = listening(&port), epoll = epoll_create1(EPOLL_CLOEXEC);
    fixed = flagged(argc, argv, "fixed");
    asks = flagged(argc, argv, "asks");
    nested = flagged(argc, argv, "nested");
    finished = eventfd(0, EFD_CLOEXEC);
    if (pipe(jobs) || pipe(to_child) || pipe(from_child)) return 4;
    pid_t server = getpid();
    int of_upstream = listening(&upstream_port);
    if (fork() == 0) be_the_clients(server);
    if (asks && fork() == 0) be_the_upstream(server, of_upstream);
    if (nested && fork() == 0) be_the_child(server);
    if (flagged(argc, argv, "piped")) close(from_child[1]);
    close(of_upstream);
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    watched(epoll, listener);
    watched(epoll, finished);
    while (now_ns() < ends) {
        struct epoll_event event;
        if (epoll_wait(epoll, &event, 1, 100) != 1) continue;
        int on = 1, fd = event.data.fd;
        if (fd != listener) {
            serve(epoll, fd);
            continue;
        }
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        watched(epoll, fd);
    }
    return 0;
}
