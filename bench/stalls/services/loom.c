/* Eight workers that share one epoll (EPOLLONESHOT) over connections of AF_UNIX, twelve clients in another process. One fault by flag:
 * calico (a writer of a read-write lock behind readers that overlap), tulle (one thread asks a server over UDP for all), burlap (a line
 * written under a mutex to a pipe that is read slowly), gingham (two connections for eight threads), muslin (a lock that spins with
 * sched_yield, its holder without a CPU), damask (a mapped file beside a limit of memory), velvet (malloc_trim under a mutex), serge (a
 * holder that is nicer than the rest), chintz (a clock's thread sleeps under a mutex), organza (a semaphore of its own), twill (a convoy
 * of short holds). linen has no fault: a flusher and a janitor whom nobody waits for. "fixed" is the same program mended. */
#include "../../../highwater/tests/stalls/services/truth.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

enum { WORKERS = 8, CLIENTS = 12, BLOCKS = 240000, PAGES = 40960, PAGE = 4096, LINE = 300 };
static int fixed, shared_fd, ends[CLIENTS][2], lines[2], lanes[2][2], names_fd, cloth_fd;
static const char *kind;
static pthread_mutex_t beam = PTHREAD_MUTEX_INITIALIZER, rack = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER, asked = PTHREAD_COND_INITIALIZER, told_all = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t shed = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int spun, permits = 3, turns;
static int lane_used[2];
static uint64_t wanted, answered;
static void *blocks[BLOCKS];
static unsigned char *cloth;

static int is(const char *word) { return !strcmp(kind, word); }

/* calico */

__attribute__((noinline)) static void calico_browse(void) {
    if (!fixed) pthread_rwlock_rdlock(&shed);
    pause_us(45000);
    if (!fixed) pthread_rwlock_unlock(&shed);
    sink++;
}

static void *browser(void *arg) {
    long me = (intptr_t)arg;
    for (;;) {
        uint64_t at = now_ns() / 1000 % 900000;
        if (at > 300000) pause_us(900000 - (long)at + me * 22000);
        else calico_browse();
    }
    return arg;
}

static void calico_request(int me) {
    int writes = atomic_fetch_add(&turns, 1) % 61 == 60;
    uint64_t start = now_ns();
    if (writes) pthread_rwlock_wrlock(&shed);
    else pthread_rwlock_rdlock(&shed);
    waited(me, start);
    sink++;
    pthread_rwlock_unlock(&shed);
}

/* tulle */

__attribute__((noinline)) static void tulle_resolve(void) {
    char name[32] = "cotton.example", answer[64];
    if (send(names_fd, name, sizeof name, 0) < 0 || recv(names_fd, answer, sizeof answer, 0) < 0) exit(4);
    sink++;
}

static void *resolver(void *arg) {
    for (;;) {
        pthread_mutex_lock(&rack);
        while (wanted == answered) pthread_cond_wait(&asked, &rack);
        uint64_t upto = wanted;
        pthread_mutex_unlock(&rack);
        tulle_resolve();
        pthread_mutex_lock(&rack);
        answered = upto;
        pthread_cond_broadcast(&told_all);
        pthread_mutex_unlock(&rack);
    }
    return arg;
}

static void tulle_request(void) {
    pthread_mutex_lock(&rack);
    uint64_t mine = ++wanted;
    pthread_cond_signal(&asked);
    while (!fixed && answered < mine) pthread_cond_wait(&told_all, &rack);
    pthread_mutex_unlock(&rack);
}

/* The other process: answers a name in 0.2 ms, each 90th in 80 ms. */
static void names(int fd) {
    char some[64];
    struct sockaddr_in from;
    for (int turn = 1;; turn++) {
        socklen_t size = sizeof from;
        ssize_t got = recvfrom(fd, some, sizeof some, 0, (void *)&from, &size);
        if (got < 0) _exit(0);
        pause_us(turn % 90 ? 200 : 80000);
        sendto(fd, some, (size_t)got, 0, (void *)&from, size);
    }
}

/* burlap */

__attribute__((noinline)) static void burlap_log(int me) {
    char line[LINE] = {1};
    if (fixed) return;
    uint64_t start = now_ns();
    pthread_mutex_lock(&beam);
    waited(me, start);
    if (write(lines[1], line, sizeof line) < 0) exit(4);
    pthread_mutex_unlock(&beam);
}

static void *slow_reader(void *arg) {
    char some[4096];
    for (int turn = 1; read(lines[0], some, sizeof some) > 0; turn++) pause_us(turn % 60 < 4 ? 30000 : 500);
    return arg;
}

/* gingham */

__attribute__((noinline)) static void gingham_query(int lane) {
    char b = 1;
    if (write(lanes[lane][0], &b, 1) != 1 || read(lanes[lane][0], &b, 1) != 1) exit(4);
    sink++;
}

static void gingham_request(int me) {
    uint64_t start = now_ns();
    pthread_mutex_lock(&rack);
    while (lane_used[0] && lane_used[1]) pthread_cond_wait(&freed, &rack);
    int lane = lane_used[0];
    lane_used[lane] = 1;
    pthread_mutex_unlock(&rack);
    waited(me, start);
    gingham_query(lane);
    pthread_mutex_lock(&rack);
    lane_used[lane] = 0;
    pthread_cond_signal(&freed);
    pthread_mutex_unlock(&rack);
}

/* The other process: both connections are slow at once each 0.8 s. */
static void *database(void *arg) {
    int fd = lanes[(intptr_t)arg][1];
    for (char b; read(fd, &b, 1) == 1 && write(fd, &b, 1) == 1;)
        pause_us(!fixed && now_ns() / 1000 % 800000 < 20000 ? 70000 : 100);
    return arg;
}

/* muslin */

static void muslin_lock(void) {
    while (atomic_exchange(&spun, 1)) sched_yield();
}

__attribute__((noinline)) static void muslin_tally(void) {
    if (!fixed) muslin_lock();
    work_us(120);
    if (fixed) muslin_lock();
    sink++;
    atomic_store(&spun, 0);
}

/* damask */

__attribute__((noinline)) static void damask_weigh(void) {
    static __thread unsigned seed = 5;
    for (int i = 0; i < 24; i++) sink += cloth[(size_t)(rand_r(&seed) % (fixed ? 512 : PAGES)) * PAGE];
}

/* velvet */

__attribute__((noinline)) static void velvet_shear(void) {
    if (!fixed) pthread_mutex_lock(&beam);
    malloc_trim(0);
    if (!fixed) pthread_mutex_unlock(&beam);
    sink++;
}

static void *shearer(void *arg) {
    for (;;) {
        for (int i = 0; i < BLOCKS; i++)
            if (!blocks[i] && (blocks[i] = malloc(600))) memset(blocks[i], 1, 600);
        pause_us(fixed ? 60000000 : 2200000);
        for (int i = 0; i < BLOCKS; i++)
            if (i % 64) free(blocks[i]), blocks[i] = NULL;
        velvet_shear();
    }
    return arg;
}

/* serge */

__attribute__((noinline)) static void serge_count(void) {
    if (!fixed) pthread_mutex_lock(&beam);
    work_us(2500);
    if (fixed) pthread_mutex_lock(&beam);
    sink++;
    pthread_mutex_unlock(&beam);
}

static void *nicer(void *arg) {
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 0);
    for (;;) {
        pause_us(400000);
        serge_count();
    }
    return arg;
}

/* chintz */

__attribute__((noinline)) static void chintz_retry(void) {
    if (!fixed) pthread_mutex_lock(&beam);
    for (int i = 0; i < 3; i++) pause_us(28000);
    if (fixed) pthread_mutex_lock(&beam);
    sink++;
    pthread_mutex_unlock(&beam);
}

static void *ticker(void *arg) {
    struct itimerspec every = {{0, 700000000}, {0, 700000000}};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(fd, 0, &every, NULL);
    for (uint64_t passed; read(fd, &passed, sizeof passed) == sizeof passed;) chintz_retry();
    return arg;
}

/* organza */

static void take(void) {
    for (int left;;) {
        left = atomic_load(&permits);
        if (left > 0 && atomic_compare_exchange_strong(&permits, &left, left - 1)) return;
        if (left <= 0) syscall(SYS_futex, &permits, FUTEX_WAIT_PRIVATE, left, NULL, NULL, 0);
    }
}

static void give(void) {
    atomic_fetch_add(&permits, 1);
    syscall(SYS_futex, &permits, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

__attribute__((noinline)) static void organza_batch(void) {
    if (!fixed) take();
    pause_us(65000);
    if (!fixed) give();
    sink++;
}

static void *batch(void *arg) {
    for (;;) {
        pause_us(900000 - (long)(now_ns() / 1000 % 900000));
        organza_batch();
    }
    return arg;
}

/* twill */

__attribute__((noinline)) static void twill_count(int me) {
    for (int i = 0; i < 4; i++) {
        if (fixed) work_us(120);
        uint64_t start = now_ns();
        pthread_mutex_lock(&beam);
        waited(me, start);
        if (!fixed) work_us(250);
        sink++;
        pthread_mutex_unlock(&beam);
    }
}

/* linen */

static void *flusher(void *arg) {
    static char some[1 << 20];
    for (;;) {
        pause_us(300000);
        if (pwrite(cloth_fd, some, sizeof some, 0) < 0) exit(4);
        fdatasync(cloth_fd);
    }
    return arg;
}

static void *janitor(void *arg) {
    struct timespec until;
    for (;;) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 250000000;
        if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
        pthread_mutex_lock(&rack);
        pthread_cond_timedwait(&freed, &rack, &until);
        pthread_mutex_unlock(&rack);
        work_us(12000);
    }
    return arg;
}

/* The service. */

static void plain_request(int me) {
    uint64_t start = now_ns();
    pthread_mutex_lock(&beam);
    waited(me, start);
    work_us(2);
    pthread_mutex_unlock(&beam);
}

static void request(int me) {
    work_us(150);
    if (is("calico")) return calico_request(me);
    if (is("tulle")) return tulle_request();
    if (is("burlap")) return burlap_log(me);
    if (is("gingham")) return gingham_request(me);
    if (is("muslin")) return muslin_tally();
    if (is("damask")) return damask_weigh();
    if (is("twill")) return twill_count(me);
    if (is("organza")) {
        uint64_t start = now_ns();
        take();
        waited(me, start);
        work_us(2);
        return give();
    }
    plain_request(me);
}

static void *worker(void *arg) {
    long me = (intptr_t)arg;
    struct epoll_event event;
    char b, name[16];
    snprintf(name, sizeof name, "flush/%ld", me);
    prctl(PR_SET_NAME, name);
    for (;;) {
        if (epoll_wait(shared_fd, &event, 1, -1) != 1) continue;
        if (read(event.data.fd, &b, 1) != 1) return arg;
        uint64_t start = now_ns();
        request((int)me);
        told((int)me, start, 3000000);
        if (write(event.data.fd, &b, 1) != 1) return arg;
        event.events = EPOLLIN | EPOLLONESHOT;
        epoll_ctl(shared_fd, EPOLL_CTL_MOD, event.data.fd, &event);
    }
}

/* The other process. Those of twill come all at once. */
static void *client(void *arg) {
    long me = (intptr_t)arg;
    int fd = ends[me][1];
    for (char b = 1; write(fd, &b, 1) == 1 && read(fd, &b, 1) == 1;) {
        pause_us(is("twill") ? 60000 - (long)(now_ns() / 1000 % 60000) : 8000 + me * 370);
        if (is("linen") && me % 3 == 0) pause_us(90000 + me * 20000);
    }
    return arg;
}

static void others(int server) {
    pthread_t t;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(lines[1]);
    for (long i = 0; i < CLIENTS; i++) {
        close(ends[i][0]);
        pthread_create(&t, NULL, client, (void *)(intptr_t)i);
    }
    for (long i = 0; i < 2; i++) pthread_create(&t, NULL, database, (void *)(intptr_t)i);
    pthread_create(&t, NULL, slow_reader, NULL);
    names(server);
}

static int server_of_names(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    names_fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (void *)&at, size) || getsockname(fd, (void *)&at, &size) || connect(names_fd, (void *)&at, size)) exit(4);
    return fd;
}

static void file_of(const char *truth_path) {
    static char block[1 << 16] = {1};
    char path[4096];
    snprintf(path, sizeof path, "%s.cloth", truth_path);
    cloth_fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    for (size_t at = 0; at < (is("damask") ? (size_t)PAGES * PAGE : sizeof block); at += sizeof block)
        if (write(cloth_fd, block, sizeof block) < 0) exit(4);
    fsync(cloth_fd);
    if (!is("damask")) return;
    posix_fadvise(cloth_fd, 0, 0, POSIX_FADV_DONTNEED);
    cloth = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED, cloth_fd, 0);
    madvise(cloth, (size_t)PAGES * PAGE, MADV_RANDOM);
}

static void started(const char *name, void *(*run)(void *), int count) {
    pthread_t t;
    for (long i = 0; i < count; i++) {
        pthread_create(&t, NULL, run, (void *)(intptr_t)i);
        pthread_setname_np(t, name);
    }
}

static void background(void) {
    if (is("calico")) started("flush/8", browser, 2);
    if (is("tulle")) started("flush/9", resolver, 1);
    if (is("velvet")) started("accept", shearer, 1);
    if (is("serge")) started("worker-3", nicer, 1);
    if (is("chintz")) started("worker-1", ticker, 1);
    if (is("organza")) started("worker-2", batch, 3);
    if (is("linen")) started("worker-4", flusher, 1), started("worker-5", janitor, 1);
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    kind = argc > 3 ? argv[3] : "linen";
    fixed = flagged(argc, argv, "fixed");
    shared_fd = epoll_create1(0);
    file_of(argv[1]);
    int server = server_of_names();
    if (pipe(lines)) return 4;
    fcntl(lines[1], F_SETPIPE_SZ, 4096);
    for (int i = 0; i < CLIENTS; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i])) return 4;
    for (int i = 0; i < 2; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, lanes[i])) return 4;
    if (!fork()) others(server);
    signal(SIGPIPE, SIG_IGN);
    alarm((unsigned)seconds + 1);
    for (int i = 0; i < CLIENTS; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = ends[i][0]};
        close(ends[i][1]);
        epoll_ctl(shared_fd, EPOLL_CTL_ADD, ends[i][0], &event);
    }
    background();
    started("flush/0", worker, WORKERS);
    for (;;) pause();
}
