/* A span exporter that POSTs while it holds the mutex of every span's end; with "fixed" it takes the
 * batch out first, with "recursive" the mutex is one that keeps its owner in musl too. The collector is a thread that answers after 400 ms. Nobody has a name. */
#include "truth.h"
#include <arpa/inet.h>
#include <sys/socket.h>

static pthread_mutex_t spans = PTHREAD_MUTEX_INITIALIZER;
static int fixed, port;

static void *collector(void *arg) {
    int listener = *(int *)arg;
    for (;;) {
        int peer = accept(listener, NULL, NULL);
        char request[64];
        if (read(peer, request, sizeof request) > 0) {
            pause_us(400000);
            if (write(peer, "ok", 2) < 0) perror("write");
        }
        close(peer);
    }
    return arg;
}

__attribute__((noinline)) static void post_it(void) {
    char body[8192], reply[64];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(body, 'x', sizeof body);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && write(fd, body, 32) == 32)
        sink += (uint64_t)read(fd, reply, sizeof reply);
    close(fd);
}

__attribute__((noinline)) static void ship_batch(void) {
    pthread_mutex_lock(&spans);
    if (!fixed) post_it();
    pthread_mutex_unlock(&spans);
    if (fixed) post_it();
    sink++;
}

static void *shipper(void *arg) {
    for (;;) {
        pause_us(600000);
        ship_batch();
    }
    return arg;
}

__attribute__((noinline)) static void end_span(void) {
    pthread_mutex_lock(&spans);
    work_us(10);
    pthread_mutex_unlock(&spans);
    sink++;
}

static void *worker(void *arg) {
    int me = (int)(intptr_t)arg;
    unsigned seed = (unsigned)me + 1;
    for (;;) {
        uint64_t start = now_ns();
        work_us(200);
        end_span();
        told(me, start, 20000000);
        pause_us(2000 + rand_r(&seed) % 6000);
    }
    return arg;
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    fixed = flagged(argc, argv, "fixed");
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    if (flagged(argc, argv, "recursive")) pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&spans, &kind);
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    static int listener;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 8)) return 4;
    getsockname(listener, (struct sockaddr *)&at, &size);
    port = ntohs(at.sin_port);
    pthread_t t;
    pthread_create(&t, NULL, collector, &listener);
    pthread_create(&t, NULL, shipper, NULL);
    for (int i = 0; i < 8; i++) pthread_create(&t, NULL, worker, (void *)(intptr_t)i);
    pause_us((long)(seconds * 1e6));
    return 0;
}
