// One thread polls the connections and puts requests into a queue; six workers take them, wake on a condition, and
// count under a pthread mutex. A maintenance thread has a task each now and then, and the fault is that it does it
// with the mutex. --fault adaptive: it computes 60 ms; the mutex is adaptive, so that waiters spin first. --fault
// recursive: it computes 45 ms with a recursive mutex that it takes twice. --fault helper: it asks a helper thread by
// a pipe, which computes 60 ms. --fault poll: it waits 1.2 s in poll() for a peer. --fault expire: it frees 160,000
// entries and trims the heap. --fault timer: it wakes by a timerfd and sleeps three times. --fault nested: it computes
// 80 ms with a second mutex, which another thread wants while it has the first. --fault loop: the polling thread
// serves requests itself, and the task computes 80 ms with the mutex. Healthy: all these tasks, in turn, without the
// mutex.
#include "../../common/service.h"
#include <malloc.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

enum { WORKERS = 6, QUEUE = 1024, ENTRIES = 160000 };
struct job {
    int fd;
    struct request request;
};
struct entry {
    struct entry *next;
    char data[1100];
};
static pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER, mutex, index_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct job queue[QUEUE];
static unsigned queue_head, queue_tail;
static int to_helper[2], from_helper[2], timer = -1;
static uint64_t count;
static struct entry *entries;

NOINLINE void compute_totals(void) {
    burn_us(is_variant("recursive") ? 45000 : is_variant("nested") || is_variant("loop") ? 80000 : 60000);
    if (is_variant("recursive"))
        pthread_mutex_lock(&mutex);
    count++;
    if (is_variant("recursive"))
        pthread_mutex_unlock(&mutex);
}

static void *help(void *unused) {
    name_thread("helper");
    char byte;
    while (read_all(to_helper[0], &byte, 1)) {
        burn_us(60000);
        write_all(from_helper[1], &byte, 1);
    }
    return unused;
}

NOINLINE void refresh_by_helper(void) {
    char byte = 1;
    if (!write_all(to_helper[1], &byte, 1) || !read_all(from_helper[0], &byte, 1))
        exit(4);
    use_result(byte);
}

NOINLINE void fetch_exchange_rates(void) {
    struct request request = {1, 1200};
    struct pollfd answer = {connect_to(settings.port + 1), POLLIN, 0};
    if (!send_answer(answer.fd, &request) || poll(&answer, 1, 5000) != 1 || !read_request(answer.fd, &request))
        exit(4);
    close(answer.fd);
}

NOINLINE void drop_expired_entries(void) {
    while (entries) {
        struct entry *next = entries->next;
        free(entries);
        entries = next;
    }
    use_result(malloc_trim(0));
}

static void add_entries(void) {
    for (int i = 0; i < ENTRIES; i++) {
        struct entry *entry = malloc(sizeof *entry);
        entry->next = entries;
        entry->data[0] = 1;
        entries = entry;
    }
}

NOINLINE void retry_with_backoff(void) {
    for (int i = 0; i < 3; i++)
        sleep_ms(28);
    use_result(1);
}

static const struct task {
    const char *fault;
    void (*run)(void);
    int period_ms;
} tasks[] = {{"adaptive", compute_totals, 600},   {"recursive", compute_totals, 500},
             {"helper", refresh_by_helper, 600},  {"poll", fetch_exchange_rates, 1400},
             {"expire", drop_expired_entries, 1300}, {"timer", retry_with_backoff, 700},
             {"nested", compute_totals, 620},     {"loop", compute_totals, 700}};
enum { TASKS = sizeof tasks / sizeof *tasks };

static void sleep_until_due(int ms) {
    uint64_t expirations;
    if (!is_variant("timer"))
        sleep_ms(ms);
    else if (read(timer, &expirations, sizeof expirations) < 0)
        exit(4);
}

NOINLINE void run_task_locked(const struct task *task) {
    pthread_mutex_t *held = is_variant("nested") ? &index_mutex : &mutex;
    pthread_mutex_lock(held);
    task->run();
    count++;
    pthread_mutex_unlock(held);
}

NOINLINE void run_task_unlocked(const struct task *task) {
    task->run();
    pthread_mutex_lock(&mutex);
    count++;
    pthread_mutex_unlock(&mutex);
}

static void *maintain(void *unused) {
    name_thread("maintenance");
    for (int turn = 0;; turn++) {
        const struct task *task = &tasks[turn % TASKS];
        if (!is_variant("none") && strcmp(settings.fault, task->fault))
            continue;
        if (task->run == drop_expired_entries)
            add_entries();
        sleep_until_due(task->period_ms);
        if (is_variant("none"))
            run_task_unlocked(task);
        else
            run_task_locked(task);
    }
    return unused;
}

// Takes the second mutex while it has the first.
static void *update_index(void *unused) {
    name_thread("index-updater");
    for (;;) {
        sleep_ms(13);
        pthread_mutex_lock(&mutex);
        pthread_mutex_lock(&index_mutex);
        count++;
        pthread_mutex_unlock(&index_mutex);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void handle_job(const struct job *job) {
    burn_us(settings.work_us);
    pthread_mutex_lock(&mutex);
    burn_us(4);
    count++;
    pthread_mutex_unlock(&mutex);
    send_answer(job->fd, &job->request);
}

static void *work(void *unused) {
    name_thread("worker");
    for (;;) {
        pthread_mutex_lock(&queue_mutex);
        while (queue_head == queue_tail)
            pthread_cond_wait(&filled, &queue_mutex);
        struct job job = queue[queue_tail++ % QUEUE];
        pthread_mutex_unlock(&queue_mutex);
        handle_job(&job);
    }
    return unused;
}

static void enqueue(const struct job *job) {
    pthread_mutex_lock(&queue_mutex);
    queue[queue_head++ % QUEUE] = *job;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&queue_mutex);
}

static void serve_polled(int listener) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {EPOLLIN, {.fd = listener}}, ready[16];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(epoll, ready, 16, -1);
        for (int i = 0; i < n; i++) {
            struct job job = {ready[i].data.fd, {0, 0}};
            if (job.fd == listener) {
                event.data.fd = accept_connection(listener);
                epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
            } else if (!read_request(job.fd, &job.request)) {
                close(job.fd);
            } else if (is_variant("loop")) {
                handle_job(&job);
            } else {
                enqueue(&job);
            }
        }
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 1800, 120, 12);
    name_thread("front");
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    if (is_variant("adaptive"))
        pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
    if (is_variant("recursive"))
        pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &kind);
    if (is_variant("timer")) {
        struct itimerspec period = {{0, 700000000}, {0, 700000000}};
        timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        timerfd_settime(timer, 0, &period, 0);
    }
    if (pipe2(to_helper, O_CLOEXEC) || pipe2(from_helper, O_CLOEXEC))
        return 4;
    int listener = listen_on(settings.port);
    start_peer("peer");
    for (int i = 0; i < WORKERS; i++)
        start_thread(work, 0);
    start_thread(help, 0);
    start_thread(maintain, 0);
    if (is_variant("nested") || is_variant("none"))
        start_thread(update_index, 0);
    start_load("keep", 0, 0);
    serve_polled(listener);
}
