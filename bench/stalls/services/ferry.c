/* A server over UDP: ten threads that receive from one socket; the client is another process. One fault by flag: two (two locks, a
 * reply awaited behind the second), three (three locks, fsync behind the third), reader (a read-write lock that a reader keeps, a
 * writer behind it, all other readers behind that), permits (a semaphore whose permits one thread takes), pool (connections kept
 * under a condition, one thread that has them all), waves (ten fdatasyncs a request), group (a commit that one of the waiters
 * makes for all), faults, purge (mappings given back under the arena's lock), trim (malloc_trim), none. "fixed" is the same
 * program mended. */
#include "../../../highwater/tests/stalls/services/truth.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum { OARS = 10, PERMITS = 3, LINES = 2, HOLDS = 256, CRATES = 120000 };
static int fixed, quay, line_fd[LINES + 1], cargo_fd;
static const char *kind;
static char block[1 << 20];
static pthread_mutex_t bow = PTHREAD_MUTEX_INITIALIZER, keel = PTHREAD_MUTEX_INITIALIZER, stern = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t chart;
static sem_t passes;

static int is(const char *word) { return !strcmp(kind, word); }

static int opened_to(struct sockaddr_in at) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&at, sizeof at)) exit(4);
    return fd;
}

static void *answer(void *arg) {
    int fd = (int)(intptr_t)arg;
    for (unsigned char ms; read(fd, &ms, 1) == 1;) {
        if (ms) pause_us(1000L * ms);
        if (write(fd, &ms, 1) != 1) break;
    }
    return NULL;
}

/* The other process: a peer that answers when it was told to, and the client with 900 requests a second. */
static void far_side(int door, struct sockaddr_in to) {
    pthread_t t;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < LINES + 1; i++) pthread_create(&t, NULL, answer, (void *)(intptr_t)accept(door, NULL, NULL));
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    for (;;) {
        uint64_t now = now_ns();
        sendto(fd, &now, sizeof now, 0, (void *)&to, sizeof to);
        pause_us(1050);
    }
}

static void begun(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, to = at;
    socklen_t size = sizeof at;
    int door = socket(AF_INET, SOCK_STREAM, 0), big = 1 << 22;
    quay = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(quay, SOL_SOCKET, SO_RCVBUF, &big, sizeof big);
    if (bind(quay, (void *)&to, size) || getsockname(quay, (void *)&to, &size)) exit(4);
    if (bind(door, (void *)&at, size) || listen(door, 8) || getsockname(door, (void *)&at, &size)) exit(4);
    if (!fork()) far_side(door, to);
    for (int i = 0; i < LINES + 1; i++) line_fd[i] = opened_to(at);
    close(door);
}

__attribute__((noinline)) static void tar_ask(int fd, unsigned char ms) {
    if (send(fd, &ms, 1, MSG_NOSIGNAL) != 1 || recv(fd, &ms, 1, 0) != 1) exit(0);
    sink++;
}

__attribute__((noinline)) static void hemp_save(long ms) {
    for (uint64_t end = now_ns() + (uint64_t)ms * 1000000u; now_ns() < end;) {
        if (pwrite(cargo_fd, block, sizeof block, 0) < 0) exit(4);
        fsync(cargo_fd);
    }
    sink++;
}

/* Connections that requests borrow. */
static pthread_mutex_t rack = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t back = PTHREAD_COND_INITIALIZER;
static int idle_line[LINES] = {0, 1}, idle = LINES;
static int borrow(void) {
    pthread_mutex_lock(&rack);
    while (!idle) pthread_cond_wait(&back, &rack);
    int one = idle_line[--idle];
    pthread_mutex_unlock(&rack);
    return one;
}
static void give_back(int one) {
    pthread_mutex_lock(&rack);
    idle_line[idle++] = one;
    pthread_mutex_unlock(&rack);
    pthread_cond_signal(&back);
}

static char *hold[HOLDS];
__attribute__((noinline)) static void oakum_unmap(int from, int to) {
    for (int i = from; i < to; i++) munmap(hold[i], 1 << 20);
    sink++;
}
static void filled(void) {
    for (int i = 0; i < HOLDS; i++) {
        hold[i] = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(hold[i], 1 << 20, MADV_NOHUGEPAGE);
        memset(hold[i], 1, 1 << 20);
        if (i % 8 == 0) pause_us(300);
    }
}

static void *crate[CRATES];
__attribute__((noinline)) static void bitumen_tidy(void) {
    for (int i = 0; i < CRATES; i++) crate[i] = memset(malloc(1900), 1, 1900);
    for (int i = 0; i < CRATES; i++)
        if (i % 16) free(crate[i]);
    if (!fixed) malloc_trim(0);
    for (int i = 0; i < CRATES; i += 16) free(crate[i]);
    sink++;
}

__attribute__((noinline)) static void pitch_round(void) {
    pthread_mutex_t *lock = is("two") ? &keel : is("three") ? &stern : is("purge") ? &bow : NULL;
    if (is("purge")) filled();
    if (lock && !fixed) pthread_mutex_lock(lock);
    if (is("reader") && !fixed) pthread_rwlock_rdlock(&chart);
    for (int i = 0; is("permits") && !fixed && i < PERMITS; i++) while (sem_wait(&passes)) continue;
    if (is("two") || is("reader") || is("permits")) tar_ask(line_fd[LINES], 90);
    if (is("three")) hemp_save(80);
    for (int i = 0; is("purge") && i < HOLDS; i += fixed ? 1 : HOLDS) {
        oakum_unmap(i, i + (fixed ? 1 : HOLDS));
        if (fixed) pause_us(400);
    }
    if (lock && !fixed) pthread_mutex_unlock(lock);
    if (is("reader") && !fixed) pthread_rwlock_unlock(&chart);
    for (int i = 0; is("permits") && !fixed && i < PERMITS; i++) sem_post(&passes);
    sink++;
}

__attribute__((noinline)) static void caulk_report(void) {
    int one = fixed ? LINES : borrow(), two = fixed ? LINES : borrow();
    tar_ask(line_fd[one], 90);
    if (!fixed) give_back(one), give_back(two);
    sink++;
}

static char *sea;
static const size_t SEA = 96u << 20;
__attribute__((noinline)) static void lead_sound(void) {
    static __thread unsigned seed;
    for (int i = 0; i < 6; i++) sink += (unsigned char)sea[(size_t)rand_r(&seed) * 4096u % SEA];
    sink++;
}

__attribute__((noinline)) static void resin_append(int mine) {
    for (int i = 0; i < 10; i++) {
        if (pwrite(cargo_fd, block, 1500, (off_t)(mine * 16 + i) * 4096) < 0) exit(4);
        if (!fixed) fdatasync(cargo_fd);
    }
    sink++;
}

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t safe = PTHREAD_COND_INITIALIZER;
static uint64_t written, kept;
static int leading;
__attribute__((noinline)) static void tallow_commit(void) {
    pthread_mutex_lock(&log_lock);
    uint64_t mine = ++written;
    while (kept < mine) {
        if (leading) {
            pthread_cond_wait(&safe, &log_lock);
            continue;
        }
        leading = 1;
        uint64_t upto = written;
        pthread_mutex_unlock(&log_lock);
        if (pwrite(cargo_fd, block, 3000, (off_t)(upto % 64) * 4096) < 0) exit(4);
        if (!fixed) fsync(cargo_fd);
        pthread_mutex_lock(&log_lock);
        kept = upto;
        leading = 0;
        pthread_cond_broadcast(&safe);
    }
    pthread_mutex_unlock(&log_lock);
}

static void crossed(int me) {
    work_us(110);
    if (is("two") || is("three") || is("purge")) {
        pthread_mutex_lock(&bow);
        work_us(2);
        pthread_mutex_unlock(&bow);
    } else if (is("reader")) {
        pthread_rwlock_rdlock(&chart);
        work_us(2);
        pthread_rwlock_unlock(&chart);
    } else if (is("permits")) {
        while (sem_wait(&passes)) continue;
        work_us(20);
        sem_post(&passes);
    } else if (is("pool")) {
        int one = borrow();
        tar_ask(line_fd[one], 0);
        give_back(one);
    } else if (is("waves")) {
        resin_append(me);
    } else if (is("group")) {
        for (int i = 0; i < 4; i++) tallow_commit();
    } else if (is("faults")) {
        lead_sound();
    } else if (is("trim")) {
        for (int i = 0; i < 8; i++) free(memset(malloc(2100), 1, 2100));
    }
}

static void *oar(void *arg) {
    int me = (int)(intptr_t)arg;
    prctl(PR_SET_NAME, me % 2 ? "jemalloc_bg_thd" : "kcompactd0");
    for (uint64_t came; recv(quay, &came, sizeof came, 0) == sizeof came;) {
        uint64_t start = now_ns();
        crossed(me);
        told(me, start, 3000000);
    }
    return arg;
}

/* Whoever takes one lock inside the other, every few milliseconds. */
static void *outer(void *arg) {
    for (;;) {
        pause_us(3000);
        if (is("reader")) {
            pthread_rwlock_wrlock(&chart);
            sink++;
            pthread_rwlock_unlock(&chart);
            continue;
        }
        pthread_mutex_lock(&bow);
        pthread_mutex_lock(&keel);
        sink++;
        pthread_mutex_unlock(&keel);
        pthread_mutex_unlock(&bow);
    }
    return arg;
}
static void *inner(void *arg) {
    for (;;) {
        pause_us(5000);
        pthread_mutex_lock(&keel);
        pthread_mutex_lock(&stern);
        sink++;
        pthread_mutex_unlock(&stern);
        pthread_mutex_unlock(&keel);
    }
    return arg;
}

static void *bosun(void *arg) {
    for (;;) {
        pause_us(730000);
        if (is("pool")) caulk_report();
        else if (is("trim")) bitumen_tidy();
        else if (is("faults") && !fixed) madvise(sea, SEA, MADV_DONTNEED), posix_fadvise(cargo_fd, 0, 0, POSIX_FADV_DONTNEED);
        else pitch_round();
    }
    return arg;
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    char path[4096];
    pthread_t t;
    pthread_rwlockattr_t fair;
    kind = argc > 3 ? argv[3] : "none";
    fixed = flagged(argc, argv, "fixed");
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    pthread_rwlockattr_init(&fair);
    pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&chart, &fair);
    sem_init(&passes, 0, PERMITS);
    snprintf(path, sizeof path, "%s.data", argv[1]);
    cargo_fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    unlink(path);
    if (is("faults")) {
        for (size_t at = 0; at < SEA; at += sizeof block) if (pwrite(cargo_fd, block, sizeof block, (off_t)at) < 0) exit(4);
        fsync(cargo_fd);
        sea = mmap(NULL, SEA, PROT_READ, MAP_SHARED, cargo_fd, 0);
        madvise(sea, SEA, MADV_RANDOM);
        for (size_t at = 0; at < SEA; at += 4096) sink += (unsigned char)sea[at];
    }
    begun();
    if (!is("waves") && !is("group") && !is("none")) pthread_create(&t, NULL, bosun, NULL);
    if (is("two") || is("three") || is("reader")) pthread_create(&t, NULL, outer, NULL);
    if (is("three")) pthread_create(&t, NULL, inner, NULL);
    for (long i = 0; i < OARS; i++) pthread_create(&t, NULL, oar, (void *)(intptr_t)i);
    pause_us((long)(seconds * 1e6));
    return 0;
}
