/* Jobs behind one condition, fed by a clock on a timerfd; six workers. One fault by flag: drum (a fresh connection, a request and its
 * reply after 1.2 s under a mutex), lime (a sort of some ms under it, often), bark (two mutexes, fdatasync behind the second), suet
 * (blocks freed and the heap trimmed under it), wash (six small writes with fdatasync a job), tank (a commit for all who wait),
 * soak (pages dropped from memory), rack (a read-write lock, its writer asleep), none. "fixed" is the same program mended. */
#include "../../../highwater/tests/stalls/services/truth.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

enum { WORKERS = 6, ROOM = 1024, NUMBERS = 60000, BLOCKS = 250000, PAGES = 16384, PAGE = 4096, COMMIT = 3 << 20 };
static int fixed, store_fd, hides_fd;
static const char *kind;
static uint64_t jobs[ROOM];
static unsigned head, tail;
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER, pit = PTHREAD_MUTEX_INITIALIZER, loft = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER, dirty = PTHREAD_COND_INITIALIZER, clean = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t shelf = PTHREAD_RWLOCK_INITIALIZER;
static struct sockaddr_in agent = {.sin_family = AF_INET};
static int numbers[NUMBERS];
static void *blocks[BLOCKS];
static unsigned char *hides;
static uint64_t written, committed;
static char batch[COMMIT];

/* The other process: reads up to the end of the request, answers after 1.2 s, closes. */
static void agency(void) {
    socklen_t size = sizeof agent;
    int at = socket(AF_INET, SOCK_STREAM, 0), fd;
    char some[4096];
    agent.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(at, (void *)&agent, size) || listen(at, 8) || getsockname(at, (void *)&agent, &size)) exit(4);
    if (fork()) {
        close(at);
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while ((fd = accept(at, NULL, NULL)) >= 0) {
        while (read(fd, some, sizeof some) > 0) continue;
        pause_us(1200000);
        if (write(fd, "done\n", 5) != 5) perror("agency");
        close(fd);
    }
    _exit(0);
}

__attribute__((noinline)) static void walnut_post(void) {
    static char body[3000];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    char reply[64];
    if (connect(fd, (void *)&agent, sizeof agent) || write(fd, body, sizeof body) < 0) exit(4);
    shutdown(fd, SHUT_WR);
    if (poll(&ready, 1, 5000) == 1 && recv(fd, reply, sizeof reply, 0) < 0) exit(4);
    close(fd);
    sink++;
}

static int less(const void *a, const void *b) { return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b); }

__attribute__((noinline)) static void chestnut_sort(void) {
    for (int i = 0; i < NUMBERS; i++) numbers[i] = rand();
    qsort(numbers, NUMBERS, sizeof *numbers, less);
    sink++;
}

__attribute__((noinline)) static void hazel_save(void) {
    static char some[1 << 19];
    for (uint64_t end = now_ns() + 150000000u; now_ns() < end;) {
        if (pwrite(store_fd, some, sizeof some, 0) < 0) exit(4);
        fdatasync(store_fd);
    }
    sink++;
}

__attribute__((noinline)) static void suet_render(void **all) {
    for (int i = 0; i < BLOCKS; i++) free(all[i]);
    malloc_trim(0);
    sink++;
}

static void suet_refill(void) {
    for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(200 + i % 7 * 64);
}

/* Everything that is wrong happens in here. */
__attribute__((noinline)) static void aspen_season(void) {
    static void *taken[BLOCKS];
    if (!strcmp(kind, "drum") || !strcmp(kind, "lime")) {
        if (!fixed) pthread_mutex_lock(&pit);
        if (!strcmp(kind, "drum")) walnut_post();
        else chestnut_sort();
        if (fixed) pthread_mutex_lock(&pit);
        sink++;
        pthread_mutex_unlock(&pit);
    } else if (!strcmp(kind, "bark")) {
        if (!fixed) pthread_mutex_lock(&loft);
        hazel_save();
        if (!fixed) pthread_mutex_unlock(&loft);
    } else if (!strcmp(kind, "suet")) {
        pthread_mutex_lock(&pit);
        memcpy(taken, blocks, sizeof blocks);
        if (!fixed) suet_render(taken);
        pthread_mutex_unlock(&pit);
        if (fixed) suet_render(taken);
        suet_refill();
    } else if (!strcmp(kind, "rack")) {
        if (!fixed) pthread_rwlock_wrlock(&shelf);
        pause_us(45000);
        if (fixed) pthread_rwlock_wrlock(&shelf);
        sink++;
        pthread_rwlock_unlock(&shelf);
    } else if (!strcmp(kind, "soak") && !fixed) {
        madvise(hides, (size_t)PAGES * PAGE, MADV_DONTNEED);
        posix_fadvise(hides_fd, 0, 0, POSIX_FADV_DONTNEED);
    }
}

static void *seasons(void *arg) {
    prctl(PR_SET_NAME, "rpc-2");
    long pause = !strcmp(kind, "drum") ? 1400000 : !strcmp(kind, "lime") ? 290000 : !strcmp(kind, "suet") ? 900000 : 500000;
    for (;;) {
        pause_us(pause);
        aspen_season();
    }
    return arg;
}

__attribute__((noinline)) static void birch_move(void) {
    pthread_mutex_lock(&pit);
    pthread_mutex_lock(&loft);
    sink++;
    pthread_mutex_unlock(&loft);
    pthread_mutex_unlock(&pit);
}

static void *mover(void *arg) {
    for (;;) {
        pause_us(11000);
        birch_move();
    }
    return arg;
}

__attribute__((noinline)) static void oak_commit(uint64_t upto) {
    if (pwrite(store_fd, batch, sizeof batch, 0) < 0) exit(4);
    fdatasync(store_fd);
    pthread_mutex_lock(&loft);
    committed = upto;
    pthread_cond_broadcast(&clean);
    pthread_mutex_unlock(&loft);
}

static void *committer(void *arg) {
    prctl(PR_SET_NAME, "rpc-7");
    for (;;) {
        pthread_mutex_lock(&loft);
        while (written == committed) pthread_cond_wait(&dirty, &loft);
        uint64_t upto = written;
        pthread_mutex_unlock(&loft);
        oak_commit(upto);
    }
    return arg;
}

static void tank_wait(void) {
    pthread_mutex_lock(&loft);
    uint64_t mine = ++written;
    pthread_cond_signal(&dirty);
    while (!fixed && committed < mine) pthread_cond_wait(&clean, &loft);
    pthread_mutex_unlock(&loft);
}

__attribute__((noinline)) static void willow_record(void) {
    char line[512] = {1};
    for (int i = 0; i < 6; i++) {
        if (pwrite(store_fd, line, sizeof line, i * 4096) < 0) exit(4);
        if (!fixed) fdatasync(store_fd);
    }
    sink++;
}

__attribute__((noinline)) static void cedar_weigh(unsigned *seed) {
    for (int i = 0; i < 40; i++) sink += hides[(size_t)(rand_r(seed) % PAGES) * PAGE];
}

static void job(int me, unsigned *seed) {
    work_us(220);
    if (!strcmp(kind, "wash")) return willow_record();
    if (!strcmp(kind, "tank")) return tank_wait();
    if (!strcmp(kind, "soak")) return cedar_weigh(seed);
    uint64_t start = now_ns();
    if (!strcmp(kind, "rack")) {
        pthread_rwlock_rdlock(&shelf);
        waited(me, start);
        work_us(2);
        pthread_rwlock_unlock(&shelf);
        return;
    }
    pthread_mutex_lock(&pit);
    waited(me, start);
    work_us(2);
    pthread_mutex_unlock(&pit);
}

static void *bench(void *arg) {
    long me = (intptr_t)arg;
    unsigned seed = 77 + (unsigned)me;
    char name[16];
    snprintf(name, sizeof name, "timer-%ld", me);
    prctl(PR_SET_NAME, name);
    for (;;) {
        pthread_mutex_lock(&door);
        while (head == tail) pthread_cond_wait(&came, &door);
        uint64_t start = jobs[head++ % ROOM];
        pthread_mutex_unlock(&door);
        job((int)me, &seed);
        told((int)me, start, 3000000);
    }
    return arg;
}

static void clock_of_jobs(double seconds) {
    long gap = !strcmp(kind, "wash") || !strcmp(kind, "tank") ? 16000000 : 2600000;
    struct itimerspec every = {{0, gap}, {0, gap}};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(fd, 0, &every, NULL);
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), passed;
    while (now_ns() < end && read(fd, &passed, sizeof passed) == sizeof passed) {
        pthread_mutex_lock(&door);
        for (; passed && tail - head < ROOM; passed--) jobs[tail++ % ROOM] = now_ns();
        pthread_mutex_unlock(&door);
        pthread_cond_broadcast(&came);
    }
}

static int file_of(const char *truth_path, const char *end, size_t bytes) {
    static char block[1 << 16] = {1};
    char path[4096];
    snprintf(path, sizeof path, "%s.%s", truth_path, end);
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    for (size_t at = 0; at < bytes; at += sizeof block)
        if (write(fd, block, sizeof block) < 0) exit(4);
    fsync(fd);
    return fd;
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    pthread_t t;
    kind = argc > 3 ? argv[3] : "none";
    fixed = flagged(argc, argv, "fixed");
    store_fd = file_of(argv[1], "store", 1 << 20);
    if (!strcmp(kind, "drum")) agency();
    if (!strcmp(kind, "suet")) suet_refill();
    if (!strcmp(kind, "soak")) {
        hides_fd = file_of(argv[1], "hides", (size_t)PAGES * PAGE);
        hides = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED, hides_fd, 0);
        madvise(hides, (size_t)PAGES * PAGE, MADV_RANDOM);
    }
    pthread_create(&t, NULL, seasons, NULL);
    if (!strcmp(kind, "bark")) pthread_create(&t, NULL, mover, NULL);
    if (!strcmp(kind, "tank")) pthread_create(&t, NULL, committer, NULL);
    for (long i = 0; i < WORKERS; i++) pthread_create(&t, NULL, bench, (void *)(intptr_t)i);
    clock_of_jobs(seconds);
    return 0;
}
