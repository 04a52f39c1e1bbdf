/* Seven threads that each wait in accept() on one listener of AF_UNIX; a connection for each request, from another process. One fault
 * by flag: clover (a peer asked under a mutex), heather (two mutexes, fdatasync under the second), borage (a tree given back under a
 * mutex), sorrel (five fdatasync a request), yarrow (a commit of all, a semaphore for each that waits), fennel (a mapped file that is
 * dropped), mallow (computing under a recursive mutex), dock (a file's lock by flock), reed (a byte in a pipe as a token), vetch
 * (O_DIRECT reads). plain has none. "fixed" is the same program mended. */
#include "../../../highwater/tests/stalls/services/truth.h"
#include <fcntl.h>
#include <malloc.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { THREADS = 7, CLIENTS = 9, LEAVES = 160000, PAGES = 24576, PAGE = 4096, CHUNK = 1 << 18 };
static int fixed, heavy, door, far_fd, comb_fd, token[2];
static char base[4000];
static const char *kind;
static pthread_mutex_t hive = PTHREAD_MUTEX_INITIALIZER, cell = PTHREAD_MUTEX_INITIALIZER, again, list = PTHREAD_MUTEX_INITIALIZER;
static sem_t asked, *waiting[64];
static int waiting_count;
static unsigned char *comb;
static __thread int gate_fd;

static int is(const char *word) { return !strcmp(kind, word); }

static int unix_of(const char *suffix, int listens) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (snprintf(at.sun_path, sizeof at.sun_path, "%s%s", base, suffix) >= (int)sizeof at.sun_path) exit(4);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (listens && (bind(fd, (void *)&at, sizeof at) || listen(fd, 64))) exit(4);
    for (int i = 0; !listens && connect(fd, (void *)&at, sizeof at); i++) {
        if (i == 200) exit(4);
        pause_us(5000);
    }
    return fd;
}

static void ask(unsigned char tens_ms) {
    if (write(far_fd, &tens_ms, 1) != 1 || read(far_fd, &tens_ms, 1) != 1) exit(4);
    sink++;
}

/* What goes wrong now and then, in a thread of its own. */

__attribute__((noinline)) static void clover_report(void) {
    if (!fixed) pthread_mutex_lock(&hive);
    ask(7);
    if (fixed) pthread_mutex_lock(&hive);
    sink++;
    pthread_mutex_unlock(&hive);
}

__attribute__((noinline)) static void heather_save(void) {
    static char block[1 << 19];
    if (!fixed) pthread_mutex_lock(&cell);
    for (uint64_t end = now_ns() + 80000000; now_ns() < end;)
        if (pwrite(comb_fd, block, sizeof block, 0) < 0 || fdatasync(comb_fd)) exit(4);
    if (fixed) pthread_mutex_lock(&cell);
    sink++;
    pthread_mutex_unlock(&cell);
}

struct leaf {
    struct leaf *next;
    char some[1100];
};

__attribute__((noinline)) static void borage_evict(struct leaf *first) {
    if (!fixed) pthread_mutex_lock(&hive);
    for (struct leaf *next; first; first = next) next = first->next, free(first);
    malloc_trim(0);
    if (fixed) pthread_mutex_lock(&hive);
    sink++;
    pthread_mutex_unlock(&hive);
}

__attribute__((noinline)) static void mallow_count(void) {
    if (!fixed) pthread_mutex_lock(&again);
    work_us(45000);
    pthread_mutex_lock(&again);
    sink++;
    pthread_mutex_unlock(&again);
    if (!fixed) pthread_mutex_unlock(&again);
}

__attribute__((noinline)) static void dock_hold(void) {
    if (!fixed) flock(gate_fd, LOCK_EX);
    ask(6);
    if (fixed) flock(gate_fd, LOCK_EX);
    sink++;
    flock(gate_fd, LOCK_UN);
}

__attribute__((noinline)) static void reed_keep(void) {
    char b = 1;
    if (!fixed && read(token[0], &b, 1) != 1) exit(4);
    ask(7);
    sink++;
    if (!fixed && write(token[1], &b, 1) != 1) exit(4);
}

static struct leaf *grown(void) {
    struct leaf *first = NULL;
    for (int i = 0; i < LEAVES; i++) {
        struct leaf *leaf = malloc(sizeof *leaf);
        leaf->next = first;
        leaf->some[0] = 1;
        first = leaf;
    }
    return first;
}

static int gate(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.gate", base);
    return open(path, O_CREAT | O_RDWR, 0600);
}

static void *keeper(void *arg) {
    gate_fd = gate();
    for (;;) {
        struct leaf *leaves = is("borage") ? grown() : NULL;
        pause_us(is("borage") ? 1300000 : is("mallow") ? 500000 : 760000);
        if (is("clover")) clover_report();
        if (is("heather")) heather_save();
        if (is("borage")) borage_evict(leaves);
        if (is("mallow")) mallow_count();
        if (is("dock")) dock_hold();
        if (is("reed")) reed_keep();
        if (is("fennel") && !fixed) {
            madvise(comb, (size_t)PAGES * PAGE, MADV_DONTNEED);
            posix_fadvise(comb_fd, 0, 0, POSIX_FADV_DONTNEED);
        }
    }
    return arg;
}

static void *mover(void *arg) {
    for (;;) {
        pause_us(7000);
        pthread_mutex_lock(&hive);
        pthread_mutex_lock(&cell);
        sink++;
        pthread_mutex_unlock(&cell);
        pthread_mutex_unlock(&hive);
    }
    return arg;
}

__attribute__((noinline)) static void yarrow_seal(void) {
    static char block[1 << 20];
    sem_t *done[64];
    sem_wait(&asked);
    pthread_mutex_lock(&list);
    int count = waiting_count;
    memcpy(done, waiting, sizeof done);
    waiting_count = 0;
    pthread_mutex_unlock(&list);
    if (!count) return;
    if (pwrite(comb_fd, block, sizeof block, 0) < 0 || fdatasync(comb_fd)) exit(4);
    for (int i = 0; i < count && !fixed; i++) sem_post(done[i]);
}

static void *sealer(void *arg) {
    for (;;) yarrow_seal();
    return arg;
}

/* What requests do. */

static void yarrow_request(int me) {
    static __thread sem_t done;
    pthread_mutex_lock(&list);
    waiting[waiting_count++ % 64] = &done;
    pthread_mutex_unlock(&list);
    sem_post(&asked);
    uint64_t start = now_ns();
    while (!fixed && sem_wait(&done)) {}
    waited(me, start);
}

__attribute__((noinline)) static void sorrel_note(int me) {
    char line[512] = {1};
    for (int i = 0; i < 5; i++) {
        if (pwrite(comb_fd, line, sizeof line, me * 65536L + i * 512L) < 0) exit(4);
        if (!fixed) fdatasync(comb_fd);
    }
}

__attribute__((noinline)) static void fennel_pick(void) {
    static __thread unsigned seed = 3;
    for (int i = 0; i < 16; i++) sink += comb[(size_t)(rand_r(&seed) % PAGES) * PAGE];
}

__attribute__((noinline)) static void vetch_scan(void) {
    static __thread unsigned seed = 9;
    static __thread void *into;
    if (!into && posix_memalign(&into, PAGE, CHUNK)) exit(4);
    for (int i = 0; i < 8 && !fixed; i++)
        if (pread(comb_fd, into, CHUNK, (off_t)(rand_r(&seed) % (PAGES * PAGE / CHUNK)) * CHUNK) != CHUNK) exit(4);
    sink += *(unsigned char *)into;
}

static void locked(pthread_mutex_t *lock, int me) {
    uint64_t start = now_ns();
    pthread_mutex_lock(lock);
    waited(me, start);
    work_us(2);
    pthread_mutex_unlock(lock);
}

static void flocked(int me) {
    uint64_t start = now_ns();
    flock(gate_fd, LOCK_EX);
    waited(me, start);
    work_us(2);
    flock(gate_fd, LOCK_UN);
}

static void piped(int me) {
    char b;
    uint64_t start = now_ns();
    if (read(token[0], &b, 1) != 1) exit(4);
    waited(me, start);
    work_us(2);
    if (write(token[1], &b, 1) != 1) exit(4);
}

static void request(int me) {
    work_us(heavy ? 900 : 170);
    if (is("sorrel")) return sorrel_note(me);
    if (is("yarrow")) return yarrow_request(me);
    if (is("fennel")) return fennel_pick();
    if (is("vetch")) return vetch_scan();
    if (is("dock")) return flocked(me);
    if (is("reed")) return piped(me);
    locked(is("mallow") ? &again : &hive, me);
}

static void *serving(void *arg) {
    int me = (int)(intptr_t)arg;
    gate_fd = gate();
    for (;;) {
        char b;
        int fd = accept(door, NULL, NULL);
        if (fd < 0) return arg;
        uint64_t start = now_ns();
        if (read(fd, &b, 1) == 1) request(me);
        told(me, start, 3000000);
        if (write(fd, &b, 1) != 1) sink++;
        close(fd);
    }
}

/* The other process: clients, and a peer that takes as long to answer as it is told. */

static void *client(void *arg) {
    long me = (intptr_t)arg;
    for (char b = 1;;) {
        int fd = unix_of(".door", 0);
        if (write(fd, &b, 1) != 1 || read(fd, &b, 1) != 1) _exit(0);
        close(fd);
        pause_us(9000 + me * 410);
    }
}

static void others(void) {
    pthread_t t;
    unsigned char b;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int listener = unix_of(".far", 1), fd = accept(listener, NULL, NULL);
    for (long i = 0; i < CLIENTS; i++) pthread_create(&t, NULL, client, (void *)(intptr_t)i);
    while (read(fd, &b, 1) == 1) {
        pause_us(b * 10000L);
        if (write(fd, &b, 1) != 1) break;
    }
    _exit(0);
}

static void file_of(void) {
    static char block[1 << 16] = {1};
    char path[4096];
    snprintf(path, sizeof path, "%s.comb", base);
    comb_fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    size_t all = is("fennel") || is("vetch") ? (size_t)PAGES * PAGE : sizeof block;
    for (size_t at = 0; at < all; at += sizeof block)
        if (write(comb_fd, block, sizeof block) < 0) exit(4);
    fsync(comb_fd);
    if (is("fennel")) {
        comb = mmap(NULL, all, PROT_READ, MAP_SHARED, comb_fd, 0);
        madvise(comb, all, MADV_RANDOM);
    }
    if (is("vetch")) comb_fd = open(path, O_RDONLY | O_DIRECT);
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    pthread_mutexattr_t recursive;
    pthread_t t;
    kind = argc > 3 ? argv[3] : "plain";
    fixed = flagged(argc, argv, "fixed");
    heavy = flagged(argc, argv, "heavy");
    snprintf(base, sizeof base, "%s", argv[1]);
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&again, &recursive);
    sem_init(&asked, 0, 0);
    door = unix_of(".door", 1);
    if (!fork()) others();
    signal(SIGPIPE, SIG_IGN);
    alarm((unsigned)seconds + 1);
    far_fd = unix_of(".far", 0);
    file_of();
    if (pipe(token) || write(token[1], "t", 1) != 1) return 4;
    if (!is("plain") && !is("sorrel") && !is("vetch") && !is("yarrow")) pthread_create(&t, NULL, keeper, NULL);
    if (is("heather")) pthread_create(&t, NULL, mover, NULL);
    if (is("yarrow")) pthread_create(&t, NULL, sealer, NULL);
    for (long i = 0; i < THREADS; i++) pthread_create(&t, NULL, serving, (void *)(intptr_t)i);
    for (;;) pause();
}
