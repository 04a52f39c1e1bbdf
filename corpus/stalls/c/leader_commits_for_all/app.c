// A log: eight threads accept, a connection for each request. --fault append: every twelfth request writes 160 records
// to an O_DSYNC file of its thread, so that write() waits for the disk. --fault leader: a request takes a pthread mutex
// and commits all that came so far; every ~2.2 s it prepares a new segment first, ~130 ms of fdatasyncs. Healthy:
// requests wait on a condition for a thread that commits without the mutex; another prepares segments little by little.
#include "../../common/service.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, committed = PTHREAD_COND_INITIALIZER;
static uint64_t last_asked, last_committed;
static int listener, log_file, segment_file;
static double next_segment;

NOINLINE int append_records(int fd, int count) {
    char record[512];
    memset(record, 'r', sizeof record);
    int written = 0;
    for (int i = 0; i < count; i++)
        written += pwrite(fd, record, sizeof record, i % 64 * 512) > 0;
    use_result(written);
    return written + 1;
}

NOINLINE int prepare_segment(int fd, double ms) {
    double end = now_s() + ms / 1e3;
    char block[2048] = {1};
    int n = 0;
    for (; now_s() < end; n++)
        if (pwrite(fd, block, sizeof block, n % 512 * 4096) < 0 || fdatasync(fd))
            break;
    use_result(n);
    return n + 1;
}

NOINLINE void commit_record(void) {
    uint64_t mine = __atomic_add_fetch(&last_asked, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&mutex);
    if (last_committed < mine) {
        uint64_t last = __atomic_load_n(&last_asked, __ATOMIC_RELAXED);
        append_records(log_file, 1);
        if (now_s() > next_segment) {
            prepare_segment(segment_file, 130);
            next_segment = now_s() + 2.07;
        }
        last_committed = last;
    }
    pthread_mutex_unlock(&mutex);
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
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (last_committed == last_asked)
            pthread_cond_wait(&asked, &mutex);
        uint64_t last = last_asked;
        pthread_mutex_unlock(&mutex);
        append_records(log_file, 1);
        pthread_mutex_lock(&mutex);
        last_committed = last;
        pthread_cond_broadcast(&committed);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void *prepare_segments(void *unused) {
    name_thread("segment-maker");
    for (;;) {
        sleep_ms(14);
        prepare_segment(segment_file, 0.8);
    }
    return unused;
}

static void handle_request(uint64_t id, int own_file) {
    burn_us(settings.work_us);
    if (is_variant("leader"))
        commit_record();
    else if (is_variant("none"))
        await_commit();
    else if (id % 12 == 5)
        append_records(own_file, 160);
}

static void *accept_and_serve(void *argument) {
    name_thread("acceptor");
    char name[32];
    sprintf(name, "records.%ld", (long)argument);
    int own_file = open_file(name, O_RDWR | O_DSYNC);
    for (;;) {
        int fd = accept_connection(listener);
        struct request request;
        if (read_request(fd, &request)) {
            handle_request(request.id, own_file);
            send_answer(fd, &request);
        }
        close(fd);
    }
    return 0;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 120, 250, 12);
    log_file = open_file("log", O_RDWR | O_DSYNC);
    segment_file = open_file("segment", O_RDWR);
    next_segment = now_s() + 2;
    listener = listen_on(settings.port);
    if (is_variant("none")) {
        start_thread(commit_all, 0);
        start_thread(prepare_segments, 0);
    }
    for (long i = 0; i < 8; i++)
        start_thread(accept_and_serve, (void *)i);
    start_load("connect", 0, 0);
    for (;;)
        pause();
}
