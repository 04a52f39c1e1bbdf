// A thread for each connection. A third of the peers vanish without closing, and their threads stay in read() for
// ever.
#include "../common.h"
#include <sys/socket.h>

NOINLINE int parse_frame(int fd) {
    char frame[98304];
    memset(frame, 0, sizeof frame);
    ssize_t r = read(fd, frame, sizeof frame);
    int s = 0;
    for (ssize_t i = 0; i < r; i++)
        s += frame[i];
    return r > 0 ? s | 1 : 0;
}

NOINLINE void *serve_connection(void *a) {
    int fd = (int)(intptr_t)a;
    char *ctx = malloc(700);
    memset(ctx, 0, 700);
    while (parse_frame(fd))
        ;
    free(ctx);
    close(fd);
    return 0;
}

int main(void) {
    int ring[32];
    memset(ring, -1, sizeof ring);
    unsigned ri = 0;
    char *sess[600] = {0};
    char msg[512] = {1};
    ready();
    for (;;) {
        int sv[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) {
            nap(100);
            continue;
        }
        pthread_t t;
        pthread_attr_t at;
        pthread_attr_init(&at);
        pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
        if (pthread_create(&t, &at, serve_connection, (void *)(intptr_t)sv[1])) {
            close(sv[0]);
            close(sv[1]);
            nap(100);
            continue;
        }
        if (write(sv[0], msg, sizeof msg) < 0) {
        }
        if (rnd() % 3) {
            int *o = &ring[ri++ % 32];
            if (*o >= 0)
                close(*o);
            *o = sv[0];
        } /* else: half-open peer, never closed */
        for (int k = 0; k < 25; k++) {
            int i = rnd() % 600;
            free(sess[i]);
            size_t n = rng(500, 20000);
            sess[i] = malloc(n);
            memset(sess[i], 1, n);
        }
        nap(55);
    }
}
