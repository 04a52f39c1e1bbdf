// Six workers share one epoll set; a request needs one of two permits of a POSIX semaphore. Every 2.3 s a maintenance
// thread takes both. --fault sleep: and sleeps 160 ms. --fault compute: and computes 120 ms. Healthy: it does both
// without a permit. Another thread writes statistics with fdatasync, which no request waits for.
#include "../../common/service.h"
#include <semaphore.h>
#include <sys/epoll.h>

static sem_t permits;
static int epoll;
static uint64_t tally[256];

NOINLINE void await_replicas(double ms) {
    sleep_ms(ms);
    tally[3]++;
}

NOINLINE void rebuild_digest(double us) {
    uint64_t x = spin(us * rounds_per_us, tally[1]);
    tally[x % 256] += x;
}

static void take_permit(void) {
    while (sem_wait(&permits))
        ;
}

NOINLINE void count_request(uint64_t id) {
    take_permit();
    tally[id % 256]++;
    burn_us(settings.work_us / 4);
    sem_post(&permits);
}

static void *maintain(void *unused) {
    name_thread("maintenance");
    bool sleeps = is_variant("sleep"), computes = is_variant("compute"), takes = sleeps || computes;
    for (;;) {
        sleep_ms(2300);
        for (int i = 0; takes && i < 2; i++)
            take_permit();
        if (!computes)
            await_replicas(160);
        if (!sleeps)
            rebuild_digest(120000);
        for (int i = 0; takes && i < 2; i++)
            sem_post(&permits);
    }
    return unused;
}

static void *write_statistics(void *unused) {
    name_thread("stats-writer");
    int fd = open_file("statistics", O_WRONLY | O_TRUNC);
    for (;;) {
        sleep_ms(700);
        if (write(fd, tally, 256) < 0)
            break;
        fdatasync(fd);
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
        count_request(request.id);
        send_answer(fd, &request);
        event.events = EPOLLIN | EPOLLONESHOT;
        epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
    }
    return unused;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 180, 300, 12);
    int listener = listen_on(settings.port);
    sem_init(&permits, 0, 2);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < 6; i++)
        start_thread(work, 0);
    start_thread(maintain, 0);
    start_thread(write_statistics, 0);
    start_load("keep", 0, 0);
    for (;;) {
        struct epoll_event event = {EPOLLIN | EPOLLONESHOT, {.fd = accept_connection(listener)}};
        epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
    }
}
