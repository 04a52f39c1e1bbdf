// A ledger: the main thread reads requests from epoll into a queue, six workers serve them and post entries under one
// pthread mutex. Every 2.7 s a thread ships a batch to the peer (220 ms) or rebalances the totals (130 ms of CPU).
// --fault network, compute: it does so with the mutex. Healthy: both in turn, without the mutex.
#include "../../common/service.h"
#include <sys/epoll.h>

enum { QUEUE = 4096, TOTALS = 1024 };
static pthread_mutex_t ledger = PTHREAD_MUTEX_INITIALIZER, queue_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;
static struct {
    int fd;
    struct request request;
} queue[QUEUE];
static unsigned queue_head, queue_tail;
static uint64_t totals[TOTALS];

NOINLINE void rebalance_totals(double us) {
    uint64_t x = spin(us * rounds_per_us, totals[0]);
    totals[x % TOTALS] += x;
}

NOINLINE int ship_batch(int ms) {
    int result = ask_peer(ms);
    totals[7] += result;
    return result + 1;
}

NOINLINE void post_entry(uint64_t id) {
    pthread_mutex_lock(&ledger);
    totals[id % TOTALS]++;
    burn_us(settings.work_us / 4);
    pthread_mutex_unlock(&ledger);
}

static void *work(void *unused) {
    name_thread("worker");
    for (;;) {
        pthread_mutex_lock(&queue_mutex);
        while (queue_head == queue_tail)
            pthread_cond_wait(&queue_filled, &queue_mutex);
        int fd = queue[queue_tail % QUEUE].fd;
        struct request request = queue[queue_tail % QUEUE].request;
        queue_tail++;
        pthread_mutex_unlock(&queue_mutex);
        burn_us(settings.work_us);
        post_entry(request.id);
        send_answer(fd, &request);
    }
    return unused;
}

static void *ship_batches(void *unused) {
    name_thread("batch-shipper");
    bool network = is_variant("network"), locked = network || is_variant("compute");
    for (int turn = 1;; turn++) {
        sleep_ms(2700);
        if (locked)
            pthread_mutex_lock(&ledger);
        if (network || (!locked && turn % 2))
            ship_batch(220);
        else
            rebalance_totals(130000);
        if (locked)
            pthread_mutex_unlock(&ledger);
    }
    return unused;
}

static void enqueue_request(int fd, struct request request) {
    pthread_mutex_lock(&queue_mutex);
    queue[queue_head % QUEUE].fd = fd;
    queue[queue_head % QUEUE].request = request;
    queue_head++;
    pthread_cond_signal(&queue_filled);
    pthread_mutex_unlock(&queue_mutex);
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 200, 300, 12);
    int listener = listen_on(settings.port), epoll = epoll_create1(EPOLL_CLOEXEC);
    start_peer("peer");
    for (int i = 0; i < 6; i++)
        start_thread(work, 0);
    start_thread(ship_batches, 0);
    start_load("keep", 0, 0);
    struct epoll_event event = {EPOLLIN, {.fd = listener}}, ready[32];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(epoll, ready, 32, -1);
        for (int i = 0; i < count; i++) {
            int fd = ready[i].data.fd;
            struct request request;
            if (fd == listener) {
                event.data.fd = accept_connection(listener);
                epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
            } else if (read_request(fd, &request)) {
                enqueue_request(fd, request);
            } else {
                close(fd);
            }
        }
    }
}
