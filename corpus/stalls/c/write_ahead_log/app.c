// A store with a write-ahead log: eight workers share one epoll set; a request waits on a condition until a committer
// has written what came so far. --fault group: every 2.8 s the committer syncs for 140 ms, and all requests wait for
// it. --fault each: every 40th request of a connection syncs for 90 ms itself. Healthy: the committer writes to the
// page cache and an archiver syncs, which no request waits for.
#include "../../common/service.h"
#include <sys/epoll.h>

static int epoll, listener, log_file, record_file;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, committed = PTHREAD_COND_INITIALIZER;
static uint64_t last_asked, last_committed, syncs;

NOINLINE int sync_log(double ms) {
    int n = sync_for_ms(log_file, ms);
    syncs += n;
    return n + 1;
}

NOINLINE int write_record(double ms) {
    int n = sync_for_ms(record_file, ms);
    syncs += n;
    return n + 1;
}

NOINLINE void await_commit(void) {
    pthread_mutex_lock(&mutex);
    uint64_t mine = ++last_asked;
    pthread_cond_signal(&asked);
    while (last_committed < mine)
        pthread_cond_wait(&committed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void *commit_all(void *unused) {
    name_thread("log-committer");
    double next_sync = now_s() + 3;
    char block[512] = {0};
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (last_committed == last_asked)
            pthread_cond_wait(&asked, &mutex);
        uint64_t last = last_asked;
        pthread_mutex_unlock(&mutex);
        if (pwrite(log_file, block, sizeof block, 0) < 0)
            exit(7);
        if (is_variant("group") && now_s() > next_sync) {
            sync_log(140);
            next_sync = now_s() + 2.8;
        }
        pthread_mutex_lock(&mutex);
        last_committed = last;
        pthread_cond_broadcast(&committed);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void *archive_records(void *unused) {
    name_thread("archiver");
    for (;;) {
        sleep_ms(2800);
        if (is_variant("none"))
            write_record(140);
    }
    return unused;
}

static void watch_once(int operation, int fd) {
    struct epoll_event event = {EPOLLIN | EPOLLONESHOT, {.fd = fd}};
    epoll_ctl(epoll, operation, fd, &event);
}

static void *work(void *unused) {
    name_thread("worker");
    for (;;) {
        struct epoll_event event;
        struct request request;
        if (epoll_wait(epoll, &event, 1, -1) < 1)
            continue;
        int fd = event.data.fd;
        if (fd == listener) {
            watch_once(EPOLL_CTL_ADD, accept_connection(listener));
        } else if (read_request(fd, &request)) {
            burn_us(settings.work_us);
            if (!is_variant("each"))
                await_commit();
            else if (request.id % 40 == 11)
                write_record(90);
            send_answer(fd, &request);
        } else {
            close(fd);
            continue;
        }
        watch_once(EPOLL_CTL_MOD, fd);
    }
    return unused;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 140, 300, 10);
    log_file = open_file("log", O_RDWR);
    record_file = open_file("records", O_RDWR);
    listener = listen_on(settings.port);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    watch_once(EPOLL_CTL_ADD, listener);
    start_thread(commit_all, 0);
    start_thread(archive_records, 0);
    for (int i = 0; i < 8; i++)
        start_thread(work, 0);
    start_load("keep", 0, 0);
    for (;;)
        pause();
}
