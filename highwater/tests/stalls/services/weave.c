/* Locks and waits other than a plain mutex, one by flag: writer, reader, semaphore, pool, parked, pipe, loop, looplock,
 * brief, crowd, ownfree, trim, unmap. "fixed" is the same program mended. "hold=MS", "every=MS" and "threads=N" vary it.
 * Threads are called what they are not. */
#include "truth.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <malloc.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static int fixed;
static long hold_ms = 80, every_ms = 700, crew = 8;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static sem_t permits;
static int spare = 3, asks[2], answers[64][2], slow_peer = -1;
static const char *kind;
static atomic_int slow_until_nobody;

/* A peer that answers after as many milliseconds as it was told. */
static void *peer(void *arg) {
    int fd = accept((int)(intptr_t)arg, NULL, NULL);
    for (uint32_t ms; read(fd, &ms, sizeof ms) == sizeof ms;) {
        pause_us(ms * 1000L);
        if (write(fd, &ms, sizeof ms) < 0) break;
    }
    return NULL;
}

static int connected(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int door = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(door, (void *)&at, size) || listen(door, 4) || getsockname(door, (void *)&at, &size)) exit(4);
    if (fork() == 0) {
        /* Not longer than the service: the others' connections are open here too. */
        prctl(PR_SET_PDEATHSIG, 9);
        peer((void *)(intptr_t)door);
        _exit(0);
    }
    if (connect(fd, (void *)&at, size)) exit(4);
    close(door);
    return fd;
}

__attribute__((noinline)) static void plover_ask(int fd, uint32_t ms) {
    if (write(fd, &ms, sizeof ms) < 0 || read(fd, &ms, sizeof ms) < 0) perror("peer");
    sink++;
}

__attribute__((noinline)) static void crane_reload(void) {
    if (!fixed) pthread_rwlock_wrlock(&table);
    plover_ask(slow_peer, (uint32_t)hold_ms);
    if (fixed) pthread_rwlock_wrlock(&table);
    work_us(20);
    pthread_rwlock_unlock(&table);
    sink++;
}

/* A reader that stays; a writer waits for it, and all readers behind the writer. */
__attribute__((noinline)) static void dunlin_report(void) {
    pthread_rwlock_rdlock(&table);
    if (!fixed) work_us((uint64_t)hold_ms * 1000);
    pthread_rwlock_unlock(&table);
    if (fixed) pause_us(hold_ms * 1000);
    sink++;
}

static void *writer_now_and_then(void *arg) {
    for (;;) {
        pause_us(5000);
        pthread_rwlock_wrlock(&table);
        work_us(10);
        pthread_rwlock_unlock(&table);
    }
    return arg;
}

/* A lock of our own: spins, then parks on a word of its own, is handed over by whoever lets go. */
struct seat {
    atomic_int ready;
    struct seat *next;
};
static atomic_flag bolt = ATOMIC_FLAG_INIT;
static struct seat *line_first, *line_last;
static int taken;
static void knot_lock(void) {
    struct seat own = {0, NULL};
    for (int i = 0; i < 200; i++) {
        while (atomic_flag_test_and_set(&bolt)) {}
        if (!taken) {
            taken = 1;
            atomic_flag_clear(&bolt);
            return;
        }
        atomic_flag_clear(&bolt);
    }
    while (atomic_flag_test_and_set(&bolt)) {}
    if (!taken) {
        taken = 1;
        atomic_flag_clear(&bolt);
        return;
    }
    if (line_last) line_last->next = &own; else line_first = &own;
    line_last = &own;
    atomic_flag_clear(&bolt);
    while (!atomic_load(&own.ready)) syscall(SYS_futex, &own.ready, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0);
}
static void knot_unlock(void) {
    while (atomic_flag_test_and_set(&bolt)) {}
    struct seat *next = line_first;
    if (next) {
        line_first = next->next;
        if (!line_first) line_last = NULL;
    } else {
        taken = 0;
    }
    atomic_flag_clear(&bolt);
    if (next) {
        atomic_int *word = &next->ready;
        atomic_store(word, 1);
        syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
    }
}
__attribute__((noinline)) static void godwit_flush(void) {
    if (!fixed) knot_lock();
    plover_ask(slow_peer, (uint32_t)hold_ms);
    if (fixed) knot_lock();
    work_us(10);
    knot_unlock();
    sink++;
}

__attribute__((noinline)) static void ruff_hold(void) {
    if (!fixed) pthread_mutex_lock(&gate);
    work_us((uint64_t)hold_ms * 1000);
    if (fixed) pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    sink++;
}
__attribute__((noinline)) static void teal_nap(void) {
    if (!fixed) pthread_mutex_lock(&gate);
    pause_us(hold_ms * 1000);
    if (fixed) pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    sink++;
}
__attribute__((noinline)) static void snipe_trim(void) {
    static char *blocks[400000];
    for (int i = 0; i < 400000; i++) blocks[i] = malloc(200);
    for (int i = 0; i < 400000; i++) free(blocks[i]);
    if (!fixed) malloc_trim(0);
    sink++;
}
__attribute__((noinline)) static void avocet_drop(void) {
    static char *was;
    if (was && !fixed) munmap(was, (size_t)hold_ms << 23);
    else if (was) return;
    was = mmap(NULL, (size_t)hold_ms << 23, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    madvise(was, (size_t)hold_ms << 23, MADV_NOHUGEPAGE);
    memset(was, 1, (size_t)hold_ms << 23);
}

static void *background(void *arg) {
    prctl(PR_SET_NAME, "tcp-reader");
    for (;;) {
        pause_us(every_ms * 1000);
        if (!strcmp(kind, "writer")) crane_reload();
        if (!strcmp(kind, "reader")) dunlin_report();
        if (!strcmp(kind, "parked")) godwit_flush();
        if (!strcmp(kind, "brief") || !strcmp(kind, "looplock")) ruff_hold();
        if (!strcmp(kind, "crowd")) teal_nap();
        if (!strcmp(kind, "trim")) snipe_trim();
        if (!strcmp(kind, "unmap")) avocet_drop();
        if (!strcmp(kind, "semaphore") || !strcmp(kind, "pool")) atomic_store(&slow_until_nobody, fixed ? 0 : 3);
    }
    return arg;
}

/* One of three connections; now and then all three answer late. */
__attribute__((noinline)) static void whimbrel_query(int *fd) {
    uint32_t ms = 1;
    if (atomic_load(&slow_until_nobody) > 0 && atomic_fetch_sub(&slow_until_nobody, 1) > 0) ms = (uint32_t)hold_ms;
    plover_ask(*fd, ms);
    sink++;
}

static void *helper(void *arg) {
    prctl(PR_SET_NAME, "acceptor");
    int turn = 0;
    for (int who; read(asks[0], &who, sizeof who) == sizeof who; turn++) {
        work_us(100);
        if (!fixed && turn % 150 == 149) work_us((uint64_t)hold_ms * 1000);
        if (write(answers[who][1], &who, sizeof who) < 0) break;
    }
    return arg;
}

static void serve(int me, unsigned *seed, char **mine, int *own_peer) {
    work_us(150);
    if (!strcmp(kind, "writer") || !strcmp(kind, "reader")) {
        pthread_rwlock_rdlock(&table);
        work_us(5);
        pthread_rwlock_unlock(&table);
    } else if (!strcmp(kind, "semaphore")) {
        sem_wait(&permits);
        whimbrel_query(own_peer);
        sem_post(&permits);
    } else if (!strcmp(kind, "pool")) {
        pthread_mutex_lock(&gate);
        while (!spare) pthread_cond_wait(&returned, &gate);
        spare--;
        pthread_mutex_unlock(&gate);
        whimbrel_query(own_peer);
        pthread_mutex_lock(&gate);
        spare++;
        pthread_cond_signal(&returned);
        pthread_mutex_unlock(&gate);
    } else if (!strcmp(kind, "parked")) {
        knot_lock();
        work_us(5);
        knot_unlock();
    } else if (!strcmp(kind, "brief") || !strcmp(kind, "crowd")) {
        pthread_mutex_lock(&gate);
        work_us(3);
        pthread_mutex_unlock(&gate);
    } else if (!strcmp(kind, "pipe")) {
        int who = me;
        if (write(asks[1], &who, sizeof who) < 0 || read(answers[me][0], &who, sizeof who) < 0) exit(4);
    } else if (!strcmp(kind, "ownfree")) {
        if (rand_r(seed) % 150 == 0) {
            enum { COUNT = 400000 };
            for (int i = 0; i < COUNT && !fixed; i++) mine[i] = malloc(48 + (size_t)(i & 63));
            for (int i = 0; i < COUNT && !fixed; i++) free(mine[i]);
        }
    } else if (!strcmp(kind, "trim")) {
        void *some[40];
        for (int i = 0; i < 40; i++) some[i] = malloc(300);
        for (int i = 0; i < 40; i++) free(some[i]);
    } else if (!strcmp(kind, "unmap")) {
        char *one = mmap(NULL, 1 << 14, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        one[0] = 1;
        munmap(one, 1 << 14);
    }
}

static void *worker(void *arg) {
    int me = (int)(intptr_t)arg, own_peer = -1;
    unsigned seed = (unsigned)me * 77 + 5;
    char **mine = !strcmp(kind, "ownfree") ? malloc(400000 * sizeof *mine) : NULL;
    if (!strcmp(kind, "semaphore") || !strcmp(kind, "pool")) own_peer = connected();
    prctl(PR_SET_NAME, "idle/3");
    for (;;) {
        uint64_t start = now_ns();
        serve(me, &seed, mine, &own_peer);
        told(me, start, 2000000);
        pause_us(4000 + rand_r(&seed) % 9000);
    }
    return arg;
}

/* One thread for all connections; clients are threads of another process. */
__attribute__((noinline)) static void oyster_render(int turn) {
    work_us(60);
    if (!strcmp(kind, "looplock")) {
        pthread_mutex_lock(&gate);
        pthread_mutex_unlock(&gate);
    } else if (!fixed && turn % 300 == 299) {
        work_us((uint64_t)hold_ms * 1000);
    }
}
static void *client(void *arg) {
    int fd = (int)(intptr_t)arg;
    for (char c = 1;; pause_us(9000))
        if (write(fd, &c, 1) < 0 || read(fd, &c, 1) <= 0) _exit(0);
    return NULL;
}
static void loop(double seconds) {
    int watched = epoll_create1(0), turn = 0;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int door = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(door, (void *)&at, size) || listen(door, 64) || getsockname(door, (void *)&at, &size)) exit(4);
    if (fork() == 0) {
        pthread_t t;
        prctl(PR_SET_PDEATHSIG, 9);
        for (int i = 0; i < 6; i++) {
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(fd, (void *)&at, size)) _exit(4);
            pthread_create(&t, NULL, client, (void *)(intptr_t)fd);
        }
        pause();
    }
    for (int i = 0; i < 6; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.fd = accept(door, NULL, NULL)};
        epoll_ctl(watched, EPOLL_CTL_ADD, e.data.fd, &e);
    }
    for (uint64_t end = now_ns() + (uint64_t)(seconds * 1e9); now_ns() < end;) {
        struct epoll_event ready[6];
        int n = epoll_wait(watched, ready, 6, 100);
        for (int i = 0; i < n; i++) {
            char c;
            uint64_t start = now_ns();
            if (read(ready[i].data.fd, &c, 1) <= 0) return;
            oyster_render(turn++);
            if (write(ready[i].data.fd, &c, 1) < 0) return;
            told(0, start, 2000000);
        }
    }
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    pthread_t t;
    kind = argc > 3 ? argv[3] : "quiet";
    fixed = flagged(argc, argv, "fixed");
    for (int i = 4; i < argc; i++) {
        sscanf(argv[i], "hold=%ld", &hold_ms);
        sscanf(argv[i], "every=%ld", &every_ms);
        sscanf(argv[i], "threads=%ld", &crew);
    }
    if (!strcmp(kind, "writer") || !strcmp(kind, "parked")) slow_peer = connected();
    sem_init(&permits, 0, 3);
    if (!strcmp(kind, "reader")) pthread_create(&t, NULL, writer_now_and_then, NULL);
    pthread_create(&t, NULL, background, NULL);
    if (!strcmp(kind, "loop") || !strcmp(kind, "looplock")) {
        loop(seconds);
        return 0;
    }
    if (!strcmp(kind, "pipe")) {
        if (pipe(asks)) return 4;
        for (int i = 0; i < 64; i++)
            if (pipe(answers[i])) return 4;
        pthread_create(&t, NULL, helper, NULL);
    }
    for (int i = 0; i < crew; i++) pthread_create(&t, NULL, worker, (void *)(intptr_t)i);
    pause_us((long)(seconds * 1e6));
    return 0;
}
