// No client: six threads make a request, rest 1 to 4 ms, and make the next. The end of a fault's name says otherwise:
// `-busy`: three threads that never rest. `-each`: a thread is started for each request, every 1.2 ms. The service
// reports to the load program what each request took. --fault peer: every 0.71 s a thread asks a peer for 90 ms with
// the mutex. --fault own: every 1500th request asks the peer for 110 ms with the mutex. --fault trim-busy: every 0.71
// s a thread frees 220,000 blocks and trims the only arena, from which the requests allocate. Healthy: the peer is
// asked without the mutex.
#include "../../common/service.h"
#include <malloc.h>

enum { BLOCKS = 220000 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t request_count;
static int report_pipe[2];
static bool busy, each;
static void *blocks[BLOCKS];

static bool fault_starts_with(const char *word) {
    return !strncmp(settings.fault, word, strlen(word));
}

NOINLINE void send_statistics(uint64_t ms) {
    if (ask_peer(ms))
        exit(4);
    use_result(1);
}

NOINLINE void renew_blocks(void) {
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i] = malloc(700), 1, 700);
    void *above = malloc(700);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    use_result(malloc_trim(0));
    free(above);
}

static void *maintain(void *unused) {
    name_thread("maintenance");
    bool locked = fault_starts_with("peer");
    for (;;) {
        sleep_ms(710);
        if (fault_starts_with("trim"))
            renew_blocks();
        else if (!fault_starts_with("own")) {
            if (locked)
                pthread_mutex_lock(&mutex);
            send_statistics(90);
            if (locked)
                pthread_mutex_unlock(&mutex);
        }
    }
    return unused;
}

NOINLINE void count_request(void) {
    pthread_mutex_lock(&mutex);
    if (++request_count % 1500 == 0 && fault_starts_with("own"))
        send_statistics(110);
    burn_us(2);
    pthread_mutex_unlock(&mutex);
}

static void allocate_some(unsigned *seed) {
    for (int i = 0; i < 30; i++) {
        char *block = malloc(1500 + rand_r(seed) % 4000);
        __asm__ volatile("" ::"r"(block) : "memory"); // or the compiler leaves the block out
        free(block);
    }
}

// Of threads that never rest, one in sixteen fast requests is reported.
static void report_request(double start) {
    static __thread unsigned skipped;
    double took = now_s() - start;
    struct request report = {(uint64_t)(start * 1e6), (uint64_t)(took * 1e6)};
    if (took > 0.02 || ++skipped % (busy ? 16 : 1) == 0)
        write_all(report_pipe[1], &report, sizeof report);
}

static void make_request(unsigned *seed) {
    double start = now_s();
    burn_us(settings.work_us);
    if (fault_starts_with("trim"))
        allocate_some(seed);
    else
        count_request();
    report_request(start);
}

static void *make_requests(void *argument) {
    name_thread("worker");
    unsigned seed = 31 + (long)argument;
    for (;;) {
        if (!busy)
            sleep_ms(1 + rand_r(&seed) % 3000 / 1e3);
        make_request(&seed);
    }
    return 0;
}

static void *make_one_request(void *argument) {
    name_thread("one-request");
    unsigned seed = (long)argument;
    make_request(&seed);
    return 0;
}

static void *start_threads(void *unused) {
    name_thread("starter");
    pthread_attr_t detached;
    pthread_t thread;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&detached, 1 << 18);
    for (long i = 1;; i++) {
        if (pthread_create(&thread, &detached, make_one_request, (void *)i))
            exit(3);
        sleep_ms(1.2);
    }
    return unused;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 2000, 250, 6);
    busy = strstr(settings.fault, "-busy");
    each = strstr(settings.fault, "-each");
    if (fault_starts_with("trim"))
        mallopt(M_ARENA_MAX, 1);
    if (pipe2(report_pipe, O_CLOEXEC))
        return 4;
    start_peer("peer");
    start_load("report", 1, report_pipe);
    close(report_pipe[0]);
    start_thread(maintain, 0);
    if (each)
        start_thread(start_threads, 0);
    for (long i = 0; !each && i < (busy ? 3 : 6); i++)
        start_thread(make_requests, (void *)i);
    for (;;)
        pause();
}
