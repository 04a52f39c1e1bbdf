// Three event loops share the connections. Every 140th request of a loop needs ~110 ms of small O_DIRECT reads. --fault
// read: the loop makes them itself. Healthy: a reader thread does, and the request is answered at once.
#include "../../common/service.h"
#include <sys/epoll.h>

enum { LOOPS = 3, BLOCK = 4096, HISTORY_MIB = 96 };
static int history_file, epolls[LOOPS], orders;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ordered = PTHREAD_COND_INITIALIZER;

NOINLINE void trace_history(void *block) {
    use_result(read_direct_for_ms(history_file, 110, block, BLOCK, HISTORY_MIB << 20));
}

static void *read_histories(void *unused) {
    name_thread("history-reader");
    void *block = aligned_alloc(BLOCK, BLOCK);
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (!orders)
            pthread_cond_wait(&ordered, &mutex);
        orders--;
        pthread_mutex_unlock(&mutex);
        trace_history(block);
    }
    return unused;
}

NOINLINE void handle_request(unsigned *count, void *block) {
    burn_us(settings.work_us);
    if (++*count % 140)
        return;
    if (is_variant("read")) {
        trace_history(block);
        return;
    }
    pthread_mutex_lock(&mutex);
    orders++;
    pthread_cond_signal(&ordered);
    pthread_mutex_unlock(&mutex);
}

static void *run_loop(void *argument) {
    int loop = (long)argument;
    name_thread("event-loop");
    unsigned count = loop * 45;
    void *block = aligned_alloc(BLOCK, BLOCK);
    struct epoll_event ready[16];
    for (;;) {
        int n = epoll_wait(epolls[loop], ready, 16, -1);
        for (int i = 0; i < n; i++) {
            struct request request;
            if (!read_request(ready[i].data.fd, &request)) {
                close(ready[i].data.fd);
                continue;
            }
            handle_request(&count, block);
            send_answer(ready[i].data.fd, &request);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 150, 300, 12);
    int listener = listen_on(settings.port);
    make_big_file("history", HISTORY_MIB);
    history_file = open_file("history", O_RDONLY | O_DIRECT);
    for (long i = 0; i < LOOPS; i++) {
        epolls[i] = epoll_create1(EPOLL_CLOEXEC);
        start_thread(run_loop, (void *)i);
    }
    start_thread(read_histories, 0);
    start_load("keep", 0, 0);
    for (int i = 0;; i++) {
        struct epoll_event event = {EPOLLIN, {.fd = accept_connection(listener)}};
        epoll_ctl(epolls[i % LOOPS], EPOLL_CTL_ADD, event.data.fd, &event);
    }
}
