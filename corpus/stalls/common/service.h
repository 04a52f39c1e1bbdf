// Shared by the C and C++ services: arguments, CPU work of a known length, sockets, files, and starting the client.
// Helpers that work or wait are always inlined, so that the service's own function is the one on the stack.
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
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define INLINE static inline __attribute__((always_inline, unused))
#define SHARED static __attribute__((unused))
#ifdef __cplusplus
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

// A request, and its answer, are these 16 bytes. A peer answers after `pause_ms`.
struct request {
    uint64_t id;
    uint64_t pause_ms;
};

// What the command line says. `socket_path` is set by services that listen on a Unix socket.
static struct {
    int port, rate, work_us, connections, burst, seconds;
    const char *fault, *dir, *truth, *socket_path;
} settings;

static volatile uint64_t result_sink;
static double rounds_per_us = 300;

// Keeps the compiler from leaving out work, and from turning a call at a function's end into a jump.
INLINE void use_result(uint64_t result) {
    result_sink += result;
}

// Seconds of CLOCK_MONOTONIC.
INLINE double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

INLINE void sleep_ms(double ms) {
    struct timespec t = {(time_t)(ms / 1000), (long)((ms - 1000.0 * (long)(ms / 1000)) * 1e6)};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

// Sleeps until the monotonic clock is a multiple of `period_ms`, plus `offset_ms`.
INLINE void sleep_until_multiple(double period_ms, double offset_ms) {
    double ms = now_s() * 1e3;
    sleep_ms((double)(long)((ms - offset_ms) / period_ms + 1) * period_ms + offset_ms - ms);
}

INLINE uint64_t spin(uint64_t rounds, uint64_t x) {
    x |= 1;
    for (uint64_t i = 0; i < rounds; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

// Computes for so long on a CPU that is otherwise idle.
INLINE void burn_us(double us) {
    use_result(spin((uint64_t)(us * rounds_per_us), result_sink));
}

SHARED void calibrate_burn(void) {
    double best = 1e9;
    for (int i = 0; i < 6; i++) {
        double start = now_s();
        use_result(spin(600000, i + 1));
        double took = now_s() - start;
        if (took < best)
            best = took;
    }
    rounds_per_us = 600000 / (best * 1e6);
}

// Whether the service runs with `--fault NAME`. The healthy variant is `none`.
INLINE bool is_variant(const char *name) {
    return strcmp(settings.fault, name) == 0;
}

// Reads the command line. The service's default load: `rate` requests a second of `work_us` over `connections`.
SHARED void read_settings(int argc, char **argv, int rate, int work_us, int connections) {
    settings.port = 21000, settings.rate = rate, settings.work_us = work_us, settings.connections = connections;
    settings.seconds = 120, settings.fault = "none", settings.dir = ".", settings.truth = "";
    struct {
        const char *name;
        const char **text;
        int *number;
    } known[] = {{"--port", 0, &settings.port},         {"--fault", &settings.fault, 0},
                 {"--dir", &settings.dir, 0},           {"--truth", &settings.truth, 0},
                 {"--rate", 0, &settings.rate},         {"--work", 0, &settings.work_us},
                 {"--burst", 0, &settings.burst},       {"--secs", 0, &settings.seconds},
                 {"--connections", 0, &settings.connections}};
    for (int i = 1; i < argc; i += 2) {
        size_t k = 0, count = sizeof known / sizeof *known;
        while (k < count && strcmp(argv[i], known[k].name))
            k++;
        if (k == count || i + 1 == argc) {
            fprintf(stderr, "unknown argument or no value: %s\n", argv[i]);
            exit(2);
        }
        if (known[k].text)
            *known[k].text = argv[i + 1];
        else
            *known[k].number = atoi(argv[i + 1]);
    }
    signal(SIGPIPE, SIG_IGN);
    alarm(settings.seconds);
    calibrate_burn();
}

SHARED void name_thread(const char *name) {
    prctl(PR_SET_NAME, name);
}

SHARED pthread_t start_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, 0, body, argument))
        exit(3);
    return thread;
}

INLINE bool read_all(int fd, void *data, size_t size) {
    for (char *p = (char *)data; size;) {
        ssize_t n = read(fd, p, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= n;
    }
    return true;
}

INLINE bool write_all(int fd, const void *data, size_t size) {
    for (const char *p = (const char *)data; size;) {
        ssize_t n = write(fd, p, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= n;
    }
    return true;
}

// False when the connection ended.
INLINE bool read_request(int fd, struct request *request) {
    return read_all(fd, request, sizeof *request);
}

INLINE bool send_answer(int fd, const struct request *request) {
    return write_all(fd, request, sizeof *request);
}

INLINE struct sockaddr_in local_address(int port) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

INLINE void send_at_once(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

SHARED int listen_on(int port) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = local_address(port);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 256)) {
        perror("bind");
        exit(4);
    }
    return listener;
}

SHARED struct sockaddr_un unix_address(const char *path) {
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return address;
}

// The next connection of a listening socket.
INLINE int accept_connection(int listener) {
    int fd;
    while ((fd = accept4(listener, 0, 0, SOCK_CLOEXEC)) < 0)
        ;
    send_at_once(fd);
    return fd;
}

// -1 when the port refuses.
INLINE int connect_to(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = local_address(port);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
        close(fd);
        return -1;
    }
    send_at_once(fd);
    return fd;
}

// One round trip to the peer process, which answers after `pause_ms`: a new connection. 0, or -1 on an error.
INLINE int ask_peer(uint64_t pause_ms) {
    int fd = connect_to(settings.port + 1);
    if (fd < 0)
        return -1;
    struct request request = {1, pause_ms};
    bool answered = send_answer(fd, &request) && read_request(fd, &request);
    close(fd);
    return answered ? 0 : -1;
}

static const char *connection_thread_name;
static void (*connection_handler)(uint64_t id);

SHARED void *serve_one_connection(void *argument) {
    int fd = (int)(long)argument;
    name_thread(connection_thread_name);
    struct request request;
    while (read_request(fd, &request)) {
        connection_handler(request.id);
        if (!send_answer(fd, &request))
            break;
    }
    close(fd);
    return 0;
}

// Serves each connection by a thread of its own, for ever.
SHARED void serve_connections(int listener, const char *thread_name, void (*handler)(uint64_t id)) {
    connection_thread_name = thread_name;
    connection_handler = handler;
    for (;;)
        pthread_detach(start_thread(serve_one_connection, (void *)(long)accept_connection(listener)));
}

// 4 KiB writes, each with an fsync, for `ms`. How many.
INLINE int sync_for_ms(int fd, double ms) {
    char block[4096];
    memset(block, 'j', sizeof block);
    double end = now_s() + ms / 1000;
    int n = 0;
    do {
        if (pwrite(fd, block, sizeof block, (off_t)(n % 2048) * 4096) < 0)
            break;
        fsync(fd);
        n++;
    } while (now_s() < end);
    return n;
}

// Reads a file opened with O_DIRECT for `ms`, every ninth block of `size`.
INLINE uint64_t read_direct_for_ms(int fd, double ms, void *buffer, size_t size, off_t file_size) {
    double end = now_s() + ms / 1000;
    off_t offset = 0;
    uint64_t sum = 0;
    do {
        if (pread(fd, buffer, size, offset) <= 0) {
            offset = 0;
            continue;
        }
        sum += ((unsigned char *)buffer)[0];
        offset = (offset + 9 * (off_t)size) % file_size;
    } while (now_s() < end);
    return sum;
}

// Reads a file for `ms` after its pages were dropped from the page cache.
INLINE uint64_t read_cold_for_ms(int fd, double ms, void *buffer, size_t size, off_t file_size) {
    double end = now_s() + ms / 1000;
    off_t offset = 0;
    uint64_t sum = 0;
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    do {
        if (offset == 0)
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        if (pread(fd, buffer, size, offset) > 0)
            sum += ((unsigned char *)buffer)[0];
        offset = (offset + (off_t)size) % file_size;
    } while (now_s() < end);
    return sum;
}

// A file in the service's folder.
SHARED int open_file(const char *name, int flags) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", settings.dir, name);
    int fd = open(path, flags | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        perror(path);
        exit(5);
    }
    return fd;
}

SHARED void make_big_file(const char *name, size_t mib) {
    int fd = open_file(name, O_WRONLY | O_TRUNC);
    size_t size = 1 << 20;
    char *block = (char *)malloc(size);
    for (size_t i = 0; i < mib; i++) {
        for (size_t j = 0; j < size; j += 8)
            *(uint64_t *)(block + j) = i * 7919 + j;
        if (write(fd, block, size) < 0)
            exit(6);
    }
    fsync(fd);
    close(fd);
    free(block);
}

// Starts the program `load`, which lies beside the service's own, with `fds` as its descriptors 3, 4, ...
SHARED void start_helper(const char *const *arguments, int fd_count, const int *fds) {
    char path[512];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 8);
    path[n < 0 ? 0 : n] = 0;
    strcpy(strrchr(path, '/') + 1, "load");
    if (fork())
        return;
    for (int i = 0; i < fd_count; i++)
        dup2(fds[i], 20 + i);
    for (int i = 0; i < fd_count; i++)
        dup2(20 + i, 3 + i);
    for (int i = 3 + fd_count; i < 64; i++)
        close(i);
    alarm(0);
    execv(path, (char *const *)arguments);
    _exit(9);
}

// Starts the client process. `mode` is `keep`, `connect` or `pipe`: see load.c.
SHARED void start_load(const char *mode, int fd_count, const int *fds) {
    char port[16], connections[16], rate[16], burst[16], seconds[16];
    sprintf(port, "%d", settings.port);
    sprintf(connections, "%d", settings.connections);
    sprintf(rate, "%d", settings.rate);
    sprintf(burst, "%d", settings.burst);
    sprintf(seconds, "%d", settings.seconds);
    const char *where = settings.socket_path ? settings.socket_path : port;
    const char *arguments[] = {"load", mode, where, connections, rate, burst, seconds, settings.truth, 0};
    start_helper(arguments, fd_count, fds);
}

// Starts a process on the next port, and waits until it listens. `kind` is `peer`, `http-peer` or `udp-peer`.
SHARED void start_peer(const char *kind) {
    char port[16];
    sprintf(port, "%d", settings.port + 1);
    const char *arguments[] = {"load", kind, port, 0};
    start_helper(arguments, 0, 0);
    sleep_ms(150);
    for (int i = 0, fd = -1; i < 40 && fd < 0 && strcmp(kind, "udp-peer"); i++) {
        fd = connect_to(settings.port + 1);
        if (fd < 0)
            sleep_ms(50);
        else
            close(fd);
    }
}
