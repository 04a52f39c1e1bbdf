/* A thread for each connection over TCP, ten clients in another process. One fault by flag: awl (every 97th request reloads under the
 * mutex, asleep), wax (each request writes a line under a mutex, to a pipe whose reader stops at times), stitch (two mutexes, the
 * holder of the second computes). "fixed" is the same program mended. */
#include "../../../highwater/tests/stalls/services/truth.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum { CLIENTS = 10, LINE = 600 };
static int fixed, lines[2];
static const char *kind;
static pthread_mutex_t tack = PTHREAD_MUTEX_INITIALIZER, rein = PTHREAD_MUTEX_INITIALIZER;
static atomic_int count;

__attribute__((noinline)) static void pommel_reload(void) {
    pause_us(25000);
    sink++;
}

__attribute__((noinline)) static void girth_sum(void) {
    work_us(80000);
    sink++;
}

__attribute__((noinline)) static void strap_log(int me) {
    char line[LINE] = {1};
    if (fixed) return;
    uint64_t start = now_ns();
    pthread_mutex_lock(&rein);
    waited(me, start);
    if (write(lines[1], line, sizeof line) < 0) exit(4);
    pthread_mutex_unlock(&rein);
}

__attribute__((noinline)) static void stirrup(int me) {
    int mine = !strcmp(kind, "awl") && atomic_fetch_add(&count, 1) % 97 == 96;
    if (mine && fixed) pommel_reload();
    uint64_t start = now_ns();
    pthread_mutex_lock(&tack);
    waited(me, start);
    if (mine && !fixed) pommel_reload();
    work_us(2);
    pthread_mutex_unlock(&tack);
}

static void *rider(void *arg) {
    int fd = (intptr_t)arg;
    for (char b; read(fd, &b, 1) == 1;) {
        uint64_t start = now_ns();
        work_us(170);
        stirrup(fd);
        if (!strcmp(kind, "wax")) strap_log(fd);
        if (write(fd, &b, 1) != 1) break;
        told(fd, start, 3000000);
    }
    close(fd);
    return arg;
}

__attribute__((noinline)) static void buckle_pass(void) {
    pthread_mutex_lock(&tack);
    pthread_mutex_lock(&rein);
    sink++;
    pthread_mutex_unlock(&rein);
    pthread_mutex_unlock(&tack);
}

static void *buckler(void *arg) {
    for (;;) {
        pause_us(13000);
        buckle_pass();
    }
    return arg;
}

__attribute__((noinline)) static void halter_count(void) {
    if (!fixed) pthread_mutex_lock(&rein);
    girth_sum();
    if (fixed) pthread_mutex_lock(&rein);
    sink++;
    pthread_mutex_unlock(&rein);
}

static void *counter(void *arg) {
    prctl(PR_SET_NAME, "saddler");
    for (;;) {
        pause_us(620000);
        halter_count();
    }
    return arg;
}

/* The other process: clients that ask, and rest; and the reader of the pipe, which stops for 150 ms every 700. */
static void *client(void *arg) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in *at = arg;
    if (connect(fd, (void *)at, sizeof *at)) _exit(4);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (char b = 1; write(fd, &b, 1) == 1 && read(fd, &b, 1) == 1;) pause_us(9000);
    _exit(0);
    return arg;
}

static void reader(void) {
    char some[65536];
    for (uint64_t stop = now_ns() + 700000000u; read(lines[0], some, sizeof some) > 0;)
        if (now_ns() > stop) {
            pause_us(150000);
            stop = now_ns() + 700000000u;
        }
}

static void others(struct sockaddr_in at) {
    pthread_t t;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(lines[1]);
    for (int i = 0; i < CLIENTS; i++) pthread_create(&t, NULL, client, &at);
    reader();
    for (;;) pause();
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int door = socket(AF_INET, SOCK_STREAM, 0), fd;
    pthread_t t;
    kind = argc > 3 ? argv[3] : "awl";
    fixed = flagged(argc, argv, "fixed");
    if (pipe(lines) || bind(door, (void *)&at, size) || listen(door, 32) || getsockname(door, (void *)&at, &size)) return 4;
    /* A page of room: it is full after a few lines. */
    fcntl(lines[1], F_SETPIPE_SZ, 4096);
    if (!fork()) others(at);
    if (!strcmp(kind, "stitch")) {
        pthread_create(&t, NULL, buckler, NULL);
        pthread_create(&t, NULL, counter, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    alarm((unsigned)seconds + 1);
    while ((fd = accept(door, NULL, NULL)) >= 0) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        pthread_create(&t, NULL, rider, (void *)(intptr_t)fd);
        pthread_detach(t);
    }
    return 0;
}
