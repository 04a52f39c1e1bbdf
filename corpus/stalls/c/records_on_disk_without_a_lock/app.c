// Seven threads accept on a Unix socket, a connection for each request. Here all requests wait for the disk alike.
// --fault sync: each writes five records, with an fdatasync each. --fault read: each reads eight blocks of 256 KiB
// with O_DIRECT. --fault sealer: each asks a sealer thread by a semaphore, and waits at a semaphore of its own; the
// sealer writes 1 MiB with fdatasync for all that asked. --fault leader: each commits four times; the first that comes
// writes for all, without the mutex, while the others wait at a condition. Healthy: each writes its records, asks the
// sealer but does not wait, and commits; no request syncs.
#include "../../common/service.h"
#include <semaphore.h>

enum { THREADS = 7, BLOCK = 1 << 18, FILE_MIB = 96, MOST_ASKING = 4096 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t committed = PTHREAD_COND_INITIALIZER;
static sem_t asked, *asking[MOST_ASKING];
static int asking_count, listener, record_file, block_file, log_file;
static uint64_t last_record, last_committed;
static bool leading;

NOINLINE void write_records(long thread) {
    char record[512] = {1};
    for (int i = 0; i < 5; i++) {
        if (pwrite(record_file, record, sizeof record, thread * 65536 + i * 512) < 0)
            exit(6);
        if (is_variant("sync"))
            fdatasync(record_file);
    }
}

NOINLINE void read_blocks(void) {
    static __thread unsigned seed = 9;
    static __thread void *block;
    if (!block && posix_memalign(&block, 4096, BLOCK))
        exit(6);
    for (int i = 0; i < 8; i++)
        if (pread(block_file, block, BLOCK, (off_t)(rand_r(&seed) % (FILE_MIB * 4)) * BLOCK) != BLOCK)
            exit(6);
    use_result(*(unsigned char *)block);
}

NOINLINE void seal_records(void) {
    static char sealed[1 << 20];
    static sem_t *done[MOST_ASKING];
    while (sem_wait(&asked))
        ;
    pthread_mutex_lock(&mutex);
    int count = asking_count;
    memcpy(done, asking, count * sizeof *done);
    asking_count = 0;
    pthread_mutex_unlock(&mutex);
    if (!count)
        return;
    if (pwrite(log_file, sealed, sizeof sealed, 0) < 0 || fdatasync(log_file))
        exit(6);
    for (int i = 0; i < count && is_variant("sealer"); i++)
        sem_post(done[i]);
}

static void *seal(void *unused) {
    name_thread("sealer");
    for (;;)
        seal_records();
    return unused;
}

static void ask_sealer(void) {
    static __thread sem_t done;
    pthread_mutex_lock(&mutex);
    if (asking_count < MOST_ASKING)
        asking[asking_count++] = &done;
    pthread_mutex_unlock(&mutex);
    sem_post(&asked);
    while (is_variant("sealer") && sem_wait(&done))
        ;
}

NOINLINE void commit_record(void) {
    static char record[3000];
    pthread_mutex_lock(&mutex);
    uint64_t mine = ++last_record;
    while (last_committed < mine) {
        if (leading) {
            pthread_cond_wait(&committed, &mutex);
            continue;
        }
        leading = true;
        uint64_t last = last_record;
        pthread_mutex_unlock(&mutex);
        if (pwrite(log_file, record, sizeof record, (off_t)(last % 64) * 4096) < 0)
            exit(6);
        if (is_variant("leader"))
            fsync(log_file);
        pthread_mutex_lock(&mutex);
        last_committed = last;
        leading = false;
        pthread_cond_broadcast(&committed);
    }
    pthread_mutex_unlock(&mutex);
}

static void handle_request(long thread) {
    bool healthy = is_variant("none");
    burn_us(settings.work_us);
    if (healthy || is_variant("sync"))
        write_records(thread);
    if (is_variant("read"))
        read_blocks();
    if (healthy || is_variant("sealer"))
        ask_sealer();
    for (int i = 0; i < 4 && (healthy || is_variant("leader")); i++)
        commit_record();
}

static void *accept_and_serve(void *argument) {
    name_thread("acceptor");
    for (;;) {
        int fd = accept_connection(listener);
        struct request request;
        if (read_request(fd, &request)) {
            handle_request((long)argument);
            send_answer(fd, &request);
        }
        close(fd);
    }
    return 0;
}

int main(int argc, char **argv) {
    static char path[100];
    read_settings(argc, argv, 800, 170, 9);
    record_file = open_file("records", O_RDWR);
    log_file = open_file("log", O_RDWR);
    if (is_variant("read")) {
        make_big_file("blocks", FILE_MIB);
        block_file = open_file("blocks", O_RDONLY | O_DIRECT);
    }
    snprintf(path, sizeof path, "%s/socket", settings.dir);
    unlink(path);
    settings.socket_path = path;
    struct sockaddr_un address = unix_address(path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 256)) {
        perror(path);
        return 4;
    }
    sem_init(&asked, 0, 0);
    if (is_variant("sealer") || is_variant("none"))
        start_thread(seal, 0);
    for (long i = 0; i < THREADS; i++)
        start_thread(accept_and_serve, (void *)i);
    start_load("connect", 0, 0);
    for (;;)
        pause();
}
