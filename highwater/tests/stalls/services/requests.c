/* Eight threads that serve requests of 0.2 ms, and one fault by flag: quiet (none), chain, fsync, commit,
 * faults, purge. With "fixed" the fault is mended. Threads have no names. */
#include "truth.h"
#include <fcntl.h>
#include <sys/mman.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER, arena = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t committed = PTHREAD_COND_INITIALIZER, wanted = PTHREAD_COND_INITIALIZER;
static int fixed, want_chain, want_fsync, want_commit, want_faults, want_purge;
static int journal_fd, wal_fd, index_fd;
static unsigned long asked, done;
static char *pages, *pool;
#define INDEX_BYTES (256L << 20)
#define POOL_BYTES (384L << 20)

__attribute__((noinline)) static void write_and_sync(int fd, size_t bytes) {
    static char block[1 << 16];
    for (size_t at = 0; at < bytes; at += sizeof block)
        if (write(fd, block, sizeof block) < 0) perror("write");
    fdatasync(fd);
    sink++;
}

/* The journal syncs under the second lock; the refresher takes the first, then waits for the second. */
static void *journal(void *arg) {
    for (;;) {
        pause_us(900000);
        if (!fixed) pthread_mutex_lock(&second);
        for (int i = 0; i < 12; i++) write_and_sync(journal_fd, 8 << 20);
        if (!fixed) pthread_mutex_unlock(&second);
        if (ftruncate(journal_fd, 0) || lseek(journal_fd, 0, SEEK_SET)) perror("truncate");
    }
    return arg;
}

__attribute__((noinline)) static void refresh_cache(void) {
    pthread_mutex_lock(&first);
    pthread_mutex_lock(&second);
    work_us(50);
    pthread_mutex_unlock(&second);
    pthread_mutex_unlock(&first);
    sink++;
}

static void *refresher(void *arg) {
    for (;;) {
        pause_us(100000);
        refresh_cache();
    }
    return arg;
}

static void *flusher(void *arg) {
    for (;;) {
        pthread_mutex_lock(&log_lock);
        while (asked == done) pthread_cond_wait(&wanted, &log_lock);
        unsigned long upto = asked;
        pthread_mutex_unlock(&log_lock);
        write_and_sync(wal_fd, 1 << 16);
        pthread_mutex_lock(&log_lock);
        done = upto;
        pthread_cond_broadcast(&committed);
        pthread_mutex_unlock(&log_lock);
    }
    return arg;
}

__attribute__((noinline)) static void commit(void) {
    pthread_mutex_lock(&log_lock);
    unsigned long mine = ++asked;
    pthread_cond_signal(&wanted);
    while (done < mine) pthread_cond_wait(&committed, &log_lock);
    pthread_mutex_unlock(&log_lock);
    sink++;
}

__attribute__((noinline)) static void release_pages(void) {
    pthread_mutex_lock(&arena);
    if (!fixed) madvise(pool, POOL_BYTES, MADV_DONTNEED);
    pthread_mutex_unlock(&arena);
    sink++;
}

static void *purger(void *arg) {
    for (;;) {
        if (!fixed) memset(pool, 1, POOL_BYTES);
        pause_us(700000);
        release_pages();
    }
    return arg;
}

/* All pages of the index leave memory again and again, as a page cache under pressure does it. */
static void *evictor(void *arg) {
    for (;;) {
        pause_us(150000);
        madvise(pages, INDEX_BYTES, MADV_DONTNEED);
        posix_fadvise(index_fd, 0, INDEX_BYTES, POSIX_FADV_DONTNEED);
    }
    return arg;
}

__attribute__((noinline)) static void look_up(unsigned *seed) {
    for (int i = 0; i < 40; i++) sink += (uint64_t)pages[rand_r(seed) % INDEX_BYTES];
}

static void serve(unsigned *seed) {
    work_us(200);
    if (want_chain) {
        pthread_mutex_lock(&first);
        work_us(5);
        pthread_mutex_unlock(&first);
    }
    if (want_purge) {
        pthread_mutex_lock(&arena);
        work_us(3);
        pthread_mutex_unlock(&arena);
    }
    if (want_fsync && !fixed)
        for (int i = 0; i < 8; i++) write_and_sync(wal_fd, 1 << 16);
    if (want_commit && !fixed)
        for (int i = 0; i < 4; i++) commit();
    if (want_faults) look_up(seed);
}

static void *worker(void *arg) {
    int me = (int)(intptr_t)arg;
    unsigned seed = (unsigned)me + 1;
    for (;;) {
        uint64_t start = now_ns();
        serve(&seed);
        told(me, start, 5000000);
        pause_us(5000 + rand_r(&seed) % 10000);
    }
    return arg;
}

static int opened_file(const char *truth_path, const char *suffix) {
    char path[512];
    snprintf(path, sizeof path, "%s.%s", truth_path, suffix);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) perror(path);
    unlink(path);
    return fd;
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    pthread_t t;
    fixed = flagged(argc, argv, "fixed");
    want_chain = flagged(argc, argv, "chain");
    want_fsync = flagged(argc, argv, "fsync");
    want_commit = flagged(argc, argv, "commit");
    want_faults = flagged(argc, argv, "faults");
    want_purge = flagged(argc, argv, "purge");
    journal_fd = opened_file(argv[1], "journal");
    wal_fd = opened_file(argv[1], "wal");
    if (want_faults) {
        index_fd = opened_file(argv[1], "index");
        for (long at = 0; at < INDEX_BYTES; at += 1 << 16) {
            static char block[1 << 16];
            if (write(index_fd, block, sizeof block) < 0) return 4;
        }
        fsync(index_fd);
        pages = mmap(NULL, INDEX_BYTES, PROT_READ, MAP_SHARED, index_fd, 0);
        madvise(pages, INDEX_BYTES, MADV_RANDOM);
        if (!fixed) pthread_create(&t, NULL, evictor, NULL);
    }
    if (want_chain) {
        pthread_create(&t, NULL, journal, NULL);
        pthread_create(&t, NULL, refresher, NULL);
    }
    if (want_commit) pthread_create(&t, NULL, flusher, NULL);
    if (want_purge) {
        pool = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_create(&t, NULL, purger, NULL);
    }
    for (int i = 0; i < 8; i++) pthread_create(&t, NULL, worker, (void *)(intptr_t)i);
    pause_us((long)(seconds * 1e6));
    return 0;
}
