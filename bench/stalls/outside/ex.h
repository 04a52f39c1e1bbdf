// small shared helpers for the services (all helpers are inlined so that the named functions own their frames)
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#define HELP static inline __attribute__((always_inline, unused))
#define NOINL __attribute__((noinline, noclone))
#ifdef __cplusplus
#undef NOINL
#define NOINL __attribute__((noinline))
#endif
struct exreq {
    uint64_t id;
    uint64_t t;
};
struct exopt {
    int port;
    const char *fault, *dir, *truth;
    int rate, work_us, conns, burst, secs;
};
static struct exopt O;
static volatile uint64_t ex_sink;
static double ex_ipu = 300; // iterations per microsecond
HELP double ex_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
HELP void ex_sleep_ms(double ms) {
    struct timespec t = {(time_t)(ms / 1000), (long)((ms - 1000.0 * (long)(ms / 1000)) * 1e6)};
    while (nanosleep(&t, &t) && errno == EINTR) {
    }
}
HELP uint64_t ex_spin(uint64_t n, uint64_t x) {
    x |= 1;
    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}
#define EX_BURN_US(us) (ex_sink += ex_spin((uint64_t)((us) * ex_ipu), ex_sink))
static void ex_calibrate(void) {
    double best = 1e9;
    for (int i = 0; i < 6; i++) {
        double a = ex_now();
        ex_sink += ex_spin(600000, i + 1);
        double d = ex_now() - a;
        if (d < best)
            best = d;
    }
    ex_ipu = 600000 / (best * 1e6);
}
HELP int ex_is(const char *f) {
    return strcmp(O.fault, f) == 0;
}
static void ex_args(int argc, char **argv, int port, int rate, int work, int conns) {
    struct exopt d = {port, "none", ".", "", rate, work, conns, 0, 120};
    O = d;
    for (int i = 1; i + 1 < argc; i += 2) {
        char *k = argv[i], *v = argv[i + 1];
        if (!strcmp(k, "--port"))
            O.port = atoi(v);
        else if (!strcmp(k, "--fault"))
            O.fault = v;
        else if (!strcmp(k, "--dir"))
            O.dir = v;
        else if (!strcmp(k, "--truth"))
            O.truth = v;
        else if (!strcmp(k, "--rate"))
            O.rate = atoi(v);
        else if (!strcmp(k, "--work"))
            O.work_us = atoi(v);
        else if (!strcmp(k, "--conns"))
            O.conns = atoi(v);
        else if (!strcmp(k, "--burst"))
            O.burst = atoi(v);
        else if (!strcmp(k, "--secs"))
            O.secs = atoi(v);
        else {
            fprintf(stderr, "unknown %s\n", k);
            exit(2);
        }
    }
    signal(SIGPIPE, SIG_IGN);
    alarm(O.secs);
    ex_calibrate();
}
static void ex_name(const char *n) {
    prctl(PR_SET_NAME, n);
}
static pthread_t ex_thread(void *(*f)(void *), void *a) {
    pthread_t t;
    if (pthread_create(&t, 0, f, a))
        exit(3);
    return t;
}
HELP int ex_full(int fd, void *b, size_t n, int wr) {
    char *p = (char *)b;
    while (n) {
        ssize_t r = wr ? write(fd, p, n) : read(fd, p, n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return -1;
        p += r;
        n -= r;
    }
    return 0;
}
static int ex_listen(int port) {
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in a;
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(s, (struct sockaddr *)&a, sizeof a) || listen(s, 256)) {
        perror("bind");
        exit(4);
    }
    return s;
}
HELP int ex_connect(int port) {
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in a;
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(s, (struct sockaddr *)&a, sizeof a)) {
        close(s);
        return -1;
    }
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return s;
}
HELP void ex_nodelay(int s) {
    int on = 1;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}
// one request to the peer process; the peer answers after the given time
HELP int ex_ask_peer(int port, uint64_t ms) {
    int s = ex_connect(port);
    if (s < 0)
        return -1;
    struct exreq q = {1, ms};
    int r = ex_full(s, &q, sizeof q, 1) || ex_full(s, &q, sizeof q, 0);
    close(s);
    return r;
}
// many 4 KiB appends, each fsynced, until about ms have gone
HELP int ex_sync_some(int fd, double ms) {
    char b[4096];
    memset(b, 'j', sizeof b);
    double e = ex_now() + ms / 1000;
    int n = 0;
    do {
        if (pwrite(fd, b, sizeof b, (off_t)(n % 2048) * 4096) < 0)
            break;
        fsync(fd);
        n++;
    } while (ex_now() < e);
    return n;
}
HELP uint64_t ex_direct_some(int fd, double ms, void *buf, size_t len, off_t size) {
    double e = ex_now() + ms / 1000;
    off_t o = 0;
    uint64_t k = 0;
    do {
        ssize_t r = pread(fd, buf, len, o);
        if (r <= 0) {
            o = 0;
            continue;
        }
        k += ((unsigned char *)buf)[0];
        o = (o + 9 * (off_t)len) % size;
    } while (ex_now() < e);
    return k;
}
HELP uint64_t ex_cold_some(int fd, double ms, void *buf, size_t len, off_t size) {
    double e = ex_now() + ms / 1000;
    off_t o = 0;
    uint64_t k = 0;
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    do {
        if (o == 0)
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        ssize_t r = pread(fd, buf, len, o);
        if (r > 0)
            k += ((unsigned char *)buf)[0];
        o = (o + (off_t)len) % size;
    } while (ex_now() < e);
    return k;
}
static int ex_file(const char *name, int flags) {
    char p[512];
    snprintf(p, sizeof p, "%s/%s", O.dir, name);
    int fd = open(p, flags | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        perror(p);
        exit(5);
    }
    return fd;
}
static void ex_bigfile(const char *name, size_t mb) {
    char p[512];
    snprintf(p, sizeof p, "%s/%s", O.dir, name);
    struct stat st;
    if (!stat(p, &st) && st.st_size == (off_t)(mb << 20))
        return;
    int fd = ex_file(name, O_WRONLY | O_TRUNC);
    char *b = (char *)malloc(1 << 20);
    for (size_t i = 0; i < mb; i++) {
        for (size_t j = 0; j < (1 << 20); j += 8)
            *(uint64_t *)(b + j) = i * 7919 + j;
        if (write(fd, b, 1 << 20) < 0)
            exit(6);
    }
    fsync(fd);
    close(fd);
    free(b);
}
static pid_t ex_exec(int nfd, int *fds, const char **av) {
    char self[512];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n] = 0;
    char *sl = strrchr(self, '/');
    strcpy(sl + 1, "exload");
    pid_t p = fork();
    if (p == 0) {
        for (int i = 0; i < nfd; i++)
            dup2(fds[i], 20 + i);
        for (int i = 0; i < nfd; i++)
            dup2(20 + i, 3 + i);
        for (int i = 3 + nfd; i < 64; i++)
            close(i);
        alarm(0);
        av[0] = "exload";
        execv(self, (char **)av);
        _exit(9);
    }
    return p;
}
static void ex_load(const char *mode, int nfd, int *fds) {
    static char a[6][16];
    sprintf(a[0], "%d", O.port);
    sprintf(a[1], "%d", O.conns);
    sprintf(a[2], "%d", O.rate);
    sprintf(a[3], "%d", O.burst);
    sprintf(a[4], "%d", O.secs);
    const char *av[] = {"", "load", mode, a[0], a[1], a[2], a[3], a[4], O.truth, 0};
    ex_exec(nfd, fds, av);
}
static void ex_peer(void) {
    static char a[16];
    sprintf(a, "%d", O.port + 1);
    const char *av[] = {"", "peer", a, 0};
    ex_exec(0, 0, av);
    ex_sleep_ms(150);
}
