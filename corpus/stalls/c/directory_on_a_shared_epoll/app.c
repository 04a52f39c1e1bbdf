// A directory on a Unix socket: eight workers share one epoll set. --fault readers: requests read under a pthread
// rwlock of the default kind, and each 61st writes. In 0.3 of each 0.9 s two browsers hold the read lock 45 ms at a
// time, so that they overlap and a writer waits for the gap. --fault resolver: each request waits at a condition for
// one resolver thread, which asks a UDP server for all that wait; each 90th answer takes 80 ms. --fault unawaited:
// healthy, requests leave their question and do not wait. Healthy: the browsers take no lock; a thread flushes a file,
// and a janitor waits at a condition with a timeout and computes.
#include "../../common/service.h"
#include <sys/epoll.h>

enum { WORKERS = 8 };
static pthread_rwlock_t directory_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static pthread_cond_t janitor_called = PTHREAD_COND_INITIALIZER;
static uint64_t last_asked, last_answered, entries[64], turns;
static int epoll;

NOINLINE void browse_directory(bool locked) {
    if (locked)
        pthread_rwlock_rdlock(&directory_lock);
    sleep_ms(45);
    if (locked)
        pthread_rwlock_unlock(&directory_lock);
    use_result(entries[1]);
}

static void *browse(void *argument) {
    name_thread("browser");
    for (;;) {
        long at_us = (long)(now_s() * 1e6) % 900000;
        if (at_us > 300000)
            sleep_ms((900000 - at_us) / 1e3 + (long)argument * 22);
        else
            browse_directory(is_variant("readers"));
    }
    return 0;
}

static void use_directory(uint64_t id) {
    if (__atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED) % 61 == 60)
        pthread_rwlock_wrlock(&directory_lock);
    else
        pthread_rwlock_rdlock(&directory_lock);
    use_result(entries[id % 64]);
    pthread_rwlock_unlock(&directory_lock);
}

NOINLINE void resolve_names(int fd, uint64_t ms) {
    struct request request = {1, ms};
    if (!send_answer(fd, &request) || !read_request(fd, &request))
        exit(4);
    use_result(request.id);
}

static void *resolve(void *unused) {
    name_thread("resolver");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = local_address(settings.port + 1);
    if (connect(fd, (struct sockaddr *)&address, sizeof address))
        exit(4);
    for (int turn = 1;; turn++) {
        pthread_mutex_lock(&mutex);
        while (last_asked == last_answered)
            pthread_cond_wait(&asked, &mutex);
        uint64_t last = last_asked;
        pthread_mutex_unlock(&mutex);
        resolve_names(fd, turn % 90 ? 0 : 80);
        pthread_mutex_lock(&mutex);
        last_answered = last;
        pthread_cond_broadcast(&answered);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void ask_resolver(void) {
    pthread_mutex_lock(&mutex);
    uint64_t mine = ++last_asked;
    pthread_cond_signal(&asked);
    while (is_variant("resolver") && last_answered < mine)
        pthread_cond_wait(&answered, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void *flush(void *unused) {
    name_thread("flusher");
    static char block[1 << 20];
    int fd = open_file("directory", O_WRONLY | O_TRUNC);
    for (;;) {
        sleep_ms(300);
        if (pwrite(fd, block, sizeof block, 0) < 0)
            exit(6);
        fdatasync(fd);
    }
    return unused;
}

static void *clean_up(void *unused) {
    name_thread("janitor");
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 250000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&mutex);
        pthread_cond_timedwait(&janitor_called, &mutex, &until);
        pthread_mutex_unlock(&mutex);
        burn_us(12000);
    }
    return unused;
}

static void *work(void *unused) {
    name_thread("worker");
    for (;;) {
        struct epoll_event event;
        struct request request;
        if (epoll_wait(epoll, &event, 1, -1) != 1)
            continue;
        int fd = event.data.fd;
        if (!read_request(fd, &request)) {
            close(fd);
            continue;
        }
        burn_us(settings.work_us);
        if (is_variant("resolver") || is_variant("unawaited"))
            ask_resolver();
        else
            use_directory(request.id);
        send_answer(fd, &request);
        event.events = EPOLLIN | EPOLLONESHOT;
        epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
    }
    return unused;
}

static void start_background(void) {
    if (is_variant("resolver") || is_variant("unawaited")) {
        start_peer("udp-peer");
        start_thread(resolve, 0);
        return;
    }
    start_thread(browse, (void *)0);
    start_thread(browse, (void *)1);
    if (is_variant("none")) {
        start_thread(flush, 0);
        start_thread(clean_up, 0);
    }
}

int main(int argc, char **argv) {
    static char path[100];
    read_settings(argc, argv, 1150, 150, 12);
    snprintf(path, sizeof path, "%s/socket", settings.dir);
    unlink(path);
    settings.socket_path = path;
    struct sockaddr_un address = unix_address(path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 256)) {
        perror(path);
        return 4;
    }
    epoll = epoll_create1(EPOLL_CLOEXEC);
    start_background();
    for (int i = 0; i < WORKERS; i++)
        start_thread(work, 0);
    start_load("keep", 0, 0);
    for (;;) {
        struct epoll_event event = {EPOLLIN | EPOLLONESHOT, {.fd = accept_connection(listener)}};
        epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
    }
}
