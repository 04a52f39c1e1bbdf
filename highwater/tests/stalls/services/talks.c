/* Four threads answer requests over TCP and a Unix socket, from a process of their own: pieces of any length, early
 * answers, connections that are reset or reused, and reads of what is not there. What was said is summed up and printed,
 * and the program ends with code 7: the same in each run of one seed. argv: a folder for the socket, rounds, the seed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 6000, THREADS = 4 };
static int listeners[2];
static struct sockaddr_in tcp = {.sin_family = AF_INET};
static struct sockaddr_un local = {.sun_family = AF_UNIX};
static uint64_t served, sum, refused;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Or pieces wait 40 ms for delayed acknowledgements. */
static void at_once(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static int whole(int fd, void *into, size_t bytes) {
    for (size_t got = 0; got < bytes;) {
        ssize_t more = read(fd, (char *)into + got, bytes - got);
        if (more <= 0) return 0;
        got += (size_t)more;
    }
    return 1;
}

/* In one to three pieces. */
static void say(int fd, const void *what, size_t bytes, uint64_t *state) {
    for (size_t said = 0; said < bytes;) {
        size_t piece = next(state) % 3 ? bytes - said : 1 + (bytes - said) / 2;
        if (send(fd, (const char *)what + said, piece, MSG_NOSIGNAL) != (ssize_t)piece) return;
        said += piece;
    }
}

static uint64_t sum_of(const unsigned char *bytes, uint32_t length) {
    uint64_t all = length;
    for (uint32_t at = 0; at < length; at++) all = all * 31 + bytes[at];
    return all;
}

static void answer_all(int fd, unsigned char *body) {
    uint64_t state = 5;
    uint32_t length;
    while (whole(fd, &length, sizeof length) && length <= MOST) {
        char byte;
        /* What is not there, and an answer before all has been read. */
        while (length % 3 == 0 && recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EINTR) continue;
        if (length % 5 == 0) say(fd, &length, sizeof length, &state);
        if (!whole(fd, body, length)) return;
        uint64_t found = sum_of(body, length);
        say(fd, &found, sizeof found, &state);
        pthread_mutex_lock(&lock);
        served++;
        sum += found;
        pthread_mutex_unlock(&lock);
    }
}

static void *serve(void *listener) {
    unsigned char *body = malloc(MOST);
    for (;;) {
        int fd = accept4(*(int *)listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) return body;
        at_once(fd);
        answer_all(fd, body);
        close(fd);
    }
}

static int called(int which) {
    int fd = socket(which ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr *to = which ? (struct sockaddr *)&local : (struct sockaddr *)&tcp;
    if (connect(fd, to, which ? sizeof local : sizeof tcp)) exit(3);
    at_once(fd);
    return fd;
}

/* The client: its code says whether every answer was right. */
static int ask(long rounds, uint64_t state) {
    static unsigned char body[MOST];
    for (long round = 0; round < rounds; round++) {
        int fd = called(round % 2);
        for (int times = 1 + next(&state) % 6; times > 0; times--) {
            uint32_t length = next(&state) % MOST, early;
            uint64_t answer;
            for (uint32_t at = 0; at < length; at++) body[at] = (unsigned char)next(&state);
            say(fd, &length, sizeof length, &state);
            say(fd, body, length, &state);
            if (length % 5 == 0 && (!whole(fd, &early, sizeof early) || early != length)) return 4;
            if (!whole(fd, &answer, sizeof answer) || answer != sum_of(body, length)) return 5;
            usleep(300);
        }
        struct linger reset = {1, 0};
        if (round % 7 == 0) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    socklen_t length = sizeof tcp;
    tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    snprintf(local.sun_path, sizeof local.sun_path, "%s/talks.sock", argv[1]);
    listeners[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    listeners[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listeners[0], (struct sockaddr *)&tcp, length) || bind(listeners[1], (struct sockaddr *)&local, sizeof local))
        return 2;
    getsockname(listeners[0], (struct sockaddr *)&tcp, &length);
    if (listen(listeners[0], 64) || listen(listeners[1], 64)) return 2;
    pid_t client = fork();
    if (client == 0) _exit(ask(atol(argv[2]), strtoull(argv[3], NULL, 10)));
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], NULL, serve, &listeners[at % 2]);
    int status;
    waitpid(client, &status, 0);
    /* A connection that nobody listens for any more. */
    shutdown(listeners[0], SHUT_RDWR);
    for (int at = 0; at < 3; at++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        refused += connect(fd, (struct sockaddr *)&tcp, sizeof tcp) < 0 && errno == ECONNREFUSED;
        close(fd);
    }
    pthread_mutex_lock(&lock);
    printf("client %d served %llu sum %llu refused %llu\n", status, (unsigned long long)served, (unsigned long long)sum,
           (unsigned long long)refused);
    fflush(stdout);
    _exit(7);
}
