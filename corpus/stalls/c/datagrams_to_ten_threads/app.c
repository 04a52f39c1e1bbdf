// Ten threads receive datagrams from one UDP socket. --fault pool: a request borrows one of two connections to a peer,
// which answers at once; requests wait for a connection at a condition. Every 0.73 s a reporter borrows both, and asks
// for 90 ms. --fault permits: a request takes one of three permits of a semaphore; the reporter takes all three, over
// the same 90 ms. Healthy: requests do both, and the reporter has a connection of its own and takes no permit.
#include "../../common/service.h"
#include <semaphore.h>

enum { THREADS = 10, PERMITS = 3, POOLED = 2 };
static pthread_mutex_t pool_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static int idle[POOLED], idle_count = POOLED, own_connection;
static sem_t permits;
static int receiver;

NOINLINE void query_peer(int fd, uint64_t ms) {
    struct request request = {1, ms};
    if (!send_answer(fd, &request) || !read_request(fd, &request))
        exit(4);
    use_result(request.id);
}

static int borrow_connection(void) {
    pthread_mutex_lock(&pool_mutex);
    while (!idle_count)
        pthread_cond_wait(&returned, &pool_mutex);
    int fd = idle[--idle_count];
    pthread_mutex_unlock(&pool_mutex);
    return fd;
}

static void return_connection(int fd) {
    pthread_mutex_lock(&pool_mutex);
    idle[idle_count++] = fd;
    pthread_mutex_unlock(&pool_mutex);
    pthread_cond_signal(&returned);
}

static void take_permits(int count) {
    while (count--)
        while (sem_wait(&permits))
            ;
}

static void give_permits(int count) {
    while (count--)
        sem_post(&permits);
}

NOINLINE void make_report(void) {
    if (is_variant("pool")) {
        int first = borrow_connection(), second = borrow_connection();
        query_peer(first, 90);
        return_connection(first);
        return_connection(second);
        return;
    }
    int taken = is_variant("permits") ? PERMITS : 0;
    take_permits(taken);
    query_peer(own_connection, 90);
    give_permits(taken);
}

static void *make_reports(void *unused) {
    name_thread("reporter");
    for (;;) {
        sleep_ms(730);
        make_report();
    }
    return unused;
}

static void handle_request(void) {
    burn_us(settings.work_us);
    if (!is_variant("permits")) {
        int fd = borrow_connection();
        query_peer(fd, 0);
        return_connection(fd);
    }
    if (!is_variant("pool")) {
        take_permits(1);
        burn_us(20);
        give_permits(1);
    }
}

static void *receive_requests(void *unused) {
    name_thread("receiver");
    for (;;) {
        struct request request;
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        ssize_t n = recvfrom(receiver, &request, sizeof request, 0, (struct sockaddr *)&from, &size);
        if (n != sizeof request)
            continue;
        handle_request();
        sendto(receiver, &request, sizeof request, 0, (struct sockaddr *)&from, size);
    }
    return unused;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 900, 110, 12);
    struct sockaddr_in address = local_address(settings.port);
    receiver = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(receiver, (struct sockaddr *)&address, sizeof address)) {
        perror("bind");
        return 4;
    }
    sem_init(&permits, 0, PERMITS);
    start_peer("peer");
    for (int i = 0; i < POOLED; i++)
        idle[i] = connect_to(settings.port + 1);
    own_connection = connect_to(settings.port + 1);
    for (int i = 0; i < THREADS; i++)
        start_thread(receive_requests, 0);
    start_thread(make_reports, 0);
    start_load("datagram", 0, 0);
    for (;;)
        pause();
}
