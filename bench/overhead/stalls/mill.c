/* A server over epoll: one front thread takes what clients of another process send and enqueues it for a pool that
 * answers. One fault by flag: adaptive, helper, chain, purge, fsyncs, leader, faults, plain (with hogs or a quota from
 * outside). "fixed" is the same program without a fault. "threads=N", "every=MS", "hold=MS", "clients=N", "gap=US" and
 * "work=US" vary it. */
#include "../../../highwater/tests/stalls/services/truth.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { CONNECTIONS = 64, WAITING = 1024, LONGEST_US = 20000 };
static int fixed;
static const char *kind, *folder;
static long hold_ms = 60, every_ms = 600, crew = 6, clients = 12, gap_us = 6000, busy_us = 120;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER, outer_lock, inner_lock;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;
static struct item { int fd; uint64_t came_ns; } items[WAITING];
static unsigned first_item, next_item;
static int asks[2], replies[2], log_fd = -1;
/* Requests by the microseconds from their coming to their answer. */
static atomic_long took_us[LONGEST_US + 1];

/* The arena that all requests allocate from. */
static char *arena;
static const size_t ARENA = 256u << 20;

__attribute__((noinline)) static void marlin_compact(void) {
    if (!fixed) pthread_mutex_lock(&outer_lock);
    work_us((uint64_t)hold_ms * 1000);
    if (fixed) pthread_mutex_lock(&outer_lock);
    work_us(5);
    pthread_mutex_unlock(&outer_lock);
    sink++;
}

/* Under the lock it asks another thread of the process, by a pipe. */
static void *tench_helper(void *arg) {
    for (char c; read(asks[0], &c, 1) == 1;) {
        work_us((uint64_t)hold_ms * 1000);
        if (write(replies[1], &c, 1) != 1) break;
    }
    return arg;
}
__attribute__((noinline)) static void perch_refresh(void) {
    char c = 1;
    if (!fixed) pthread_mutex_lock(&outer_lock);
    if (write(asks[1], &c, 1) != 1 || read(replies[0], &c, 1) != 1) exit(4);
    if (fixed) pthread_mutex_lock(&outer_lock);
    work_us(5);
    pthread_mutex_unlock(&outer_lock);
    sink++;
}

/* The index's lock waits for the store's, whose holder writes out. */
static char block[1 << 16];
__attribute__((noinline)) static void sturgeon_write_out(void) {
    for (int i = 0; i < 96; i++)
        if (pwrite(log_fd, block, sizeof block, (off_t)i * (off_t)sizeof block) < 0) exit(4);
    fsync(log_fd);
    sink++;
}
__attribute__((noinline)) static void carp_checkpoint(void) {
    if (!fixed) pthread_mutex_lock(&inner_lock);
    for (uint64_t end = now_ns() + (uint64_t)hold_ms * 1000000u; now_ns() < end;) sturgeon_write_out();
    if (fixed) pthread_mutex_lock(&inner_lock);
    pthread_mutex_unlock(&inner_lock);
    sink++;
}
static void *pike_indexer(void *arg) {
    prctl(PR_SET_NAME, "epoll-main");
    for (;;) {
        pause_us(7000);
        pthread_mutex_lock(&outer_lock);
        pthread_mutex_lock(&inner_lock);
        work_us(20);
        pthread_mutex_unlock(&inner_lock);
        pthread_mutex_unlock(&outer_lock);
    }
    return arg;
}

__attribute__((noinline)) static void eel_give_back(void) {
    memset(arena, 1, ARENA / 100 * (size_t)hold_ms);
    if (!fixed) pthread_mutex_lock(&outer_lock);
    if (!fixed) madvise(arena, ARENA / 100 * (size_t)hold_ms, MADV_DONTNEED);
    if (fixed) pthread_mutex_lock(&outer_lock);
    pthread_mutex_unlock(&outer_lock);
    sink++;
}

static void *timed(void *arg) {
    prctl(PR_SET_NAME, "worker-0");
    for (;;) {
        pause_us(every_ms * 1000);
        if (!strcmp(kind, "adaptive")) marlin_compact();
        if (!strcmp(kind, "helper")) perch_refresh();
        if (!strcmp(kind, "chain")) carp_checkpoint();
        if (!strcmp(kind, "purge")) eel_give_back();
    }
    return arg;
}

/* Small records, each made safe on its own. */
__attribute__((noinline)) static void gudgeon_append(int fd) {
    for (int i = 0; i < 10; i++) {
        if (write(fd, block, 512) != 512) exit(4);
        if (!fixed) fsync(fd);
    }
    if (lseek(fd, 0, SEEK_CUR) > 64 << 20) lseek(fd, 0, SEEK_SET);
    sink++;
}

/* Group commit without a thread of its own: whoever comes first writes for all. */
static pthread_mutex_t commit_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t committed = PTHREAD_COND_INITIALIZER;
static uint64_t wanted, safe;
static int writing;
__attribute__((noinline)) static void ruffe_lead(void) {
    if (pwrite(log_fd, block, 4096, 0) != 4096) exit(4);
    if (!fixed) fdatasync(log_fd);
    sink++;
}
__attribute__((noinline)) static void bream_commit(void) {
    pthread_mutex_lock(&commit_lock);
    uint64_t mine = ++wanted;
    while (safe < mine) {
        if (writing) {
            pthread_cond_wait(&committed, &commit_lock);
            continue;
        }
        writing = 1;
        uint64_t upto = wanted;
        pthread_mutex_unlock(&commit_lock);
        ruffe_lead();
        pthread_mutex_lock(&commit_lock);
        writing = 0;
        safe = upto;
        pthread_cond_broadcast(&committed);
    }
    pthread_mutex_unlock(&commit_lock);
    sink++;
}

/* A file that is mapped and was driven out of the cache. */
static const char *mapped;
static int mapped_fd;
static const size_t MAPPED = 192u << 20;
__attribute__((noinline)) static void dace_scan(unsigned *seed) {
    for (int i = 0; i < 40; i++) {
        size_t page = (size_t)rand_r(seed) % (MAPPED / 4096);
        sink += (uint64_t)mapped[page * 4096];
    }
}
static void *driven_out(void *arg) {
    for (;;) {
        if (!fixed) {
            madvise((void *)mapped, MAPPED, MADV_DONTNEED);
            posix_fadvise(mapped_fd, 0, 0, POSIX_FADV_DONTNEED);
        }
        pause_us(every_ms * 1000);
    }
    return arg;
}

static void serve(unsigned *seed, int fd) {
    work_us(busy_us);
    if (!strcmp(kind, "adaptive") || !strcmp(kind, "helper") || !strcmp(kind, "chain") || !strcmp(kind, "purge")) {
        pthread_mutex_lock(&outer_lock);
        work_us(4);
        pthread_mutex_unlock(&outer_lock);
    }
    if (!strcmp(kind, "fsyncs") && rand_r(seed) % 8 == 0) gudgeon_append(fd);
    if (!strcmp(kind, "leader")) bream_commit();
    if (!strcmp(kind, "faults")) dace_scan(seed);
}

static void *worker(void *arg) {
    unsigned seed = (unsigned)(intptr_t)arg + 3;
    char path[4096];
    int fd = -1;
    prctl(PR_SET_NAME, "fsync-daemon");
    if (!strcmp(kind, "fsyncs")) {
        snprintf(path, sizeof path, "%s.log%ld", folder, (long)(intptr_t)arg);
        fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
        unlink(path);
    }
    for (;;) {
        pthread_mutex_lock(&queue_lock);
        while (first_item == next_item) pthread_cond_wait(&queue_filled, &queue_lock);
        struct item item = items[first_item++ % WAITING];
        pthread_mutex_unlock(&queue_lock);
        serve(&seed, fd);
        char c = 1;
        if (write(item.fd, &c, 1) < 0 && errno == EPIPE) exit(0);
        told((int)(intptr_t)arg, item.came_ns, 3000000);
        uint64_t us = (now_ns() - item.came_ns) / 1000;
        atomic_fetch_add(&took_us[us < LONGEST_US ? us : LONGEST_US], 1);
    }
    return arg;
}

static void *client(void *arg) {
    unsigned seed = (unsigned)(intptr_t)arg;
    int fd = (int)(intptr_t)arg;
    for (char c = 1;; pause_us(gap_us / 2 + rand_r(&seed) % (gap_us + 1)))
        if (write(fd, &c, 1) < 0 || read(fd, &c, 1) <= 0) _exit(0);
    return NULL;
}

static void front(double seconds) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int door = socket(AF_INET, SOCK_STREAM, 0), watched = epoll_create1(0);
    if (bind(door, (void *)&at, size) || listen(door, CONNECTIONS) || getsockname(door, (void *)&at, &size)) exit(4);
    if (fork() == 0) {
        pthread_t t;
        prctl(PR_SET_PDEATHSIG, 9);
        for (long i = 0; i < clients; i++) {
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(fd, (void *)&at, size)) _exit(4);
            pthread_create(&t, NULL, client, (void *)(intptr_t)fd);
        }
        for (;;) pause();
    }
    for (long i = 0; i < clients; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.fd = accept(door, NULL, NULL)};
        epoll_ctl(watched, EPOLL_CTL_ADD, e.data.fd, &e);
    }
    for (uint64_t end = now_ns() + (uint64_t)(seconds * 1e9); now_ns() < end;) {
        struct epoll_event ready[16];
        int n = epoll_wait(watched, ready, 16, 200);
        for (int i = 0; i < n; i++) {
            char c;
            if (read(ready[i].data.fd, &c, 1) <= 0) return;
            pthread_mutex_lock(&queue_lock);
            items[next_item++ % WAITING] = (struct item){ready[i].data.fd, now_ns()};
            pthread_cond_signal(&queue_filled);
            pthread_mutex_unlock(&queue_lock);
        }
    }
}

static void prepare(void) {
    pthread_mutexattr_t adaptive;
    pthread_mutexattr_init(&adaptive);
    int type = strcmp(kind, "adaptive") ? PTHREAD_MUTEX_ERRORCHECK : PTHREAD_MUTEX_ADAPTIVE_NP;
    pthread_mutexattr_settype(&adaptive, type);
    pthread_mutex_init(&outer_lock, &adaptive);
    pthread_mutex_init(&inner_lock, NULL);
    char path[4096];
    snprintf(path, sizeof path, "%s.data", folder);
    if (!strcmp(kind, "chain") || !strcmp(kind, "leader")) {
        log_fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
        unlink(path);
    }
    if (!strcmp(kind, "faults")) {
        mapped_fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
        for (size_t at = 0; at < MAPPED; at += sizeof block)
            if (write(mapped_fd, block, sizeof block) < 0) exit(4);
        fsync(mapped_fd);
        unlink(path);
        mapped = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED, mapped_fd, 0);
        madvise((void *)mapped, MAPPED, MADV_RANDOM);
        for (size_t at = 0; at < MAPPED; at += 4096) sink += (uint64_t)mapped[at];
    }
    if (!strcmp(kind, "purge")) {
        arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        madvise(arena, ARENA, MADV_NOHUGEPAGE);
    }
    if (pipe(asks) || pipe(replies)) exit(4);
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    pthread_t t;
    folder = argv[1];
    kind = argc > 3 ? argv[3] : "plain";
    fixed = flagged(argc, argv, "fixed");
    for (int i = 4; i < argc; i++) {
        sscanf(argv[i], "hold=%ld", &hold_ms);
        sscanf(argv[i], "every=%ld", &every_ms);
        sscanf(argv[i], "threads=%ld", &crew);
        sscanf(argv[i], "clients=%ld", &clients);
        sscanf(argv[i], "gap=%ld", &gap_us);
        sscanf(argv[i], "work=%ld", &busy_us);
    }
    prepare();
    if (!strcmp(kind, "helper")) pthread_create(&t, NULL, tench_helper, NULL);
    if (!strcmp(kind, "chain")) pthread_create(&t, NULL, pike_indexer, NULL);
    if (!strcmp(kind, "faults")) pthread_create(&t, NULL, driven_out, NULL);
    pthread_create(&t, NULL, timed, NULL);
    for (long i = 0; i < crew; i++) pthread_create(&t, NULL, worker, (void *)(intptr_t)i);
    front(seconds);
    long all = 0, so_far = 0, p50 = 0, p99 = 0;
    for (int us = 0; us <= LONGEST_US; us++) all += took_us[us];
    for (int us = 0; us <= LONGEST_US; us++) {
        so_far += took_us[us];
        if (so_far * 2 < all) p50 = us;
        if (so_far * 100 < all * 99) p99 = us;
    }
    printf("%ld %ld %ld\n", p50, p99, all);
    return 0;
}
