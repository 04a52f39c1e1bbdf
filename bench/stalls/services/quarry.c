/* A pool of workers that a pump feeds: through a pipe (pipe), a counting eventfd (event) or a ring with a condition (ring); what
 * comes in a rhythm comes by timerfd. One fault by flag, second word: own (a lock of the program's own over a futex, three
 * states), turns (a lock of tickets over a futex), writer (a read-write lock), sleeper (a mutex slept under), commit (records made
 * safe by one thread for all), drop (a slab of mappings dropped under their lock), none. "fixed" is the same program mended. */
#include "../../../highwater/tests/stalls/services/truth.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

enum { CREW = 7, CART = 4096 };
static int fixed, line[2], bell, ledger_fd;
static const char *feed, *kind, *folder;

static long futex(atomic_int *word, int operation, int value) {
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* 0 free, 1 taken, 2 taken and wanted. */
static atomic_int gate;
static void gate_enter(void) {
    int was = 0;
    if (atomic_compare_exchange_strong(&gate, &was, 1)) return;
    if (was != 2) was = atomic_exchange(&gate, 2);
    while (was != 0) {
        futex(&gate, FUTEX_WAIT, 2);
        was = atomic_exchange(&gate, 2);
    }
}
static void gate_leave(void) {
    if (atomic_exchange(&gate, 0) == 2) futex(&gate, FUTEX_WAKE, 1);
}

static atomic_int next_ticket, served_ticket;
static void turn_take(void) {
    int mine = atomic_fetch_add(&next_ticket, 1);
    for (int now; (now = atomic_load(&served_ticket)) != mine;) futex(&served_ticket, FUTEX_WAIT, now);
}
static void turn_give(void) {
    atomic_fetch_add(&served_ticket, 1);
    futex(&served_ticket, FUTEX_WAKE, 1 << 20);
}

static pthread_rwlock_t strata = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t shaft = PTHREAD_MUTEX_INITIALIZER;

static void take(void) {
    if (!strcmp(kind, "own")) gate_enter();
    if (!strcmp(kind, "turns")) turn_take();
    if (!strcmp(kind, "writer")) pthread_rwlock_wrlock(&strata);
    if (!strcmp(kind, "sleeper") || !strcmp(kind, "drop")) pthread_mutex_lock(&shaft);
}
static void give(void) {
    if (!strcmp(kind, "own")) gate_leave();
    if (!strcmp(kind, "turns")) turn_give();
    if (!strcmp(kind, "writer")) pthread_rwlock_unlock(&strata);
    if (!strcmp(kind, "sleeper") || !strcmp(kind, "drop")) pthread_mutex_unlock(&shaft);
}

static char *slab;
static const size_t SLAB = 320u << 20;
__attribute__((noinline)) static void gneiss_drop(void) {
    madvise(slab, SLAB, MADV_DONTNEED);
    sink++;
}

__attribute__((noinline)) static void basalt_blast(void) {
    if (!strcmp(kind, "drop")) memset(slab, 1, SLAB);
    if (!fixed) take();
    if (!strcmp(kind, "own")) work_us(48000);
    if (!strcmp(kind, "turns") || !strcmp(kind, "writer")) work_us(60000);
    if (!strcmp(kind, "sleeper")) pause_us(90000);
    if (!strcmp(kind, "drop") && !fixed) gneiss_drop();
    if (fixed) take();
    sink++;
    give();
    sink++;
}

/* Records wait until the one that writes for all has made them safe. */
static pthread_mutex_t book = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER, kept = PTHREAD_COND_INITIALIZER;
static uint64_t last_record, last_kept;
static char record[2048];
__attribute__((noinline)) static void shale_write(uint64_t upto) {
    if (pwrite(ledger_fd, record, sizeof record, (off_t)(upto % 512) * (off_t)sizeof record) < 0) exit(4);
    if (!fixed) fsync(ledger_fd);
    sink++;
}
static void *scribe(void *arg) {
    pthread_mutex_lock(&book);
    for (;;) {
        while (last_kept == last_record) pthread_cond_wait(&came, &book);
        uint64_t upto = last_record;
        pthread_mutex_unlock(&book);
        shale_write(upto);
        pthread_mutex_lock(&book);
        last_kept = upto;
        pthread_cond_broadcast(&kept);
    }
    return arg;
}
static void commit(void) {
    pthread_mutex_lock(&book);
    uint64_t mine = ++last_record;
    pthread_cond_signal(&came);
    while (last_kept < mine) pthread_cond_wait(&kept, &book);
    pthread_mutex_unlock(&book);
}

static void haul(void) {
    work_us(140);
    if (!strcmp(kind, "commit")) {
        for (int i = 0; i < 5; i++) commit();
    } else if (!strcmp(kind, "writer")) {
        pthread_rwlock_rdlock(&strata);
        work_us(3);
        pthread_rwlock_unlock(&strata);
    } else if (strcmp(kind, "none")) {
        take();
        work_us(3);
        give();
    }
}

static pthread_mutex_t cart = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t loaded = PTHREAD_COND_INITIALIZER;
static uint64_t load[CART], first, next;
static void put(uint64_t at) {
    uint64_t one = 1;
    if (!strcmp(feed, "pipe")) {
        if (write(line[1], &at, sizeof at) < 0) exit(4);
        return;
    }
    pthread_mutex_lock(&cart);
    load[next++ % CART] = at;
    pthread_mutex_unlock(&cart);
    if (!strcmp(feed, "ring")) pthread_cond_signal(&loaded);
    else if (write(bell, &one, sizeof one) < 0) exit(4);
}
static uint64_t get(void) {
    uint64_t at, one;
    if (!strcmp(feed, "pipe")) return read(line[0], &at, sizeof at) == sizeof at ? at : 0;
    if (!strcmp(feed, "event") && read(bell, &one, sizeof one) < 0) exit(4);
    pthread_mutex_lock(&cart);
    while (first == next) pthread_cond_wait(&loaded, &cart);
    at = load[first++ % CART];
    pthread_mutex_unlock(&cart);
    return at;
}

static void *miner(void *arg) {
    prctl(PR_SET_NAME, "httpd");
    for (uint64_t at; (at = get());) {
        haul();
        told((int)(intptr_t)arg, at, 3000000);
    }
    return arg;
}

static int ticking(long us) {
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct timespec each = {us / 1000000, us % 1000000 * 1000};
    struct itimerspec when = {each, each};
    timerfd_settime(fd, 0, &when, NULL);
    return fd;
}
static void *blaster(void *arg) {
    int clock = ticking(680000);
    prctl(PR_SET_NAME, "httpd");
    for (uint64_t ticks; read(clock, &ticks, sizeof ticks) > 0;)
        if (strcmp(kind, "commit") && strcmp(kind, "none")) basalt_blast();
    return arg;
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    char path[4096];
    pthread_t t;
    folder = argv[1];
    kind = argc > 3 ? argv[3] : "none";
    fixed = flagged(argc, argv, "fixed");
    feed = flagged(argc, argv, "pipe") ? "pipe" : flagged(argc, argv, "event") ? "event" : "ring";
    if (pipe(line) || (bell = eventfd(0, EFD_SEMAPHORE)) < 0) exit(4);
    if (!strcmp(kind, "commit")) {
        snprintf(path, sizeof path, "%s.data", folder);
        ledger_fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
        unlink(path);
        pthread_create(&t, NULL, scribe, NULL);
    }
    if (!strcmp(kind, "drop")) {
        slab = mmap(NULL, SLAB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        madvise(slab, SLAB, MADV_NOHUGEPAGE);
    }
    pthread_create(&t, NULL, blaster, NULL);
    for (long i = 0; i < CREW; i++) pthread_create(&t, NULL, miner, (void *)(intptr_t)i);
    int clock = ticking(1100);
    for (uint64_t ticks, end = now_ns() + (uint64_t)(seconds * 1e9); now_ns() < end;)
        if (read(clock, &ticks, sizeof ticks) > 0) put(now_ns());
    return 0;
}
