/* A closed loop: nine threads that rest, then make a request, and no queue at all. What is slow is done by whichever of them has its
 * turn, so the holder is one of those that wait at other times. One fault by flag: net (a reply awaited under a mutex), disk (fsync
 * under it), nap (asleep under it), cpu (computing under it), none. "fixed" hands it to a thread in the background, which does it
 * without the lock. "heavy": each request takes a millisecond and a half of a CPU. */
#include "../../../highwater/tests/stalls/services/truth.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum { HANDS = 9, TURN = 1500 };
static int fixed, heavy, kiln, clay_fd;
static const char *kind;
static pthread_mutex_t wheel = PTHREAD_MUTEX_INITIALIZER;
static sem_t handed;
static atomic_int count;
static char slip[1 << 20];

/* The other process answers a byte after as many milliseconds as it says. */
static int answering(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int door = socket(AF_INET, SOCK_STREAM, 0), fd;
    if (bind(door, (void *)&at, size) || listen(door, 8) || getsockname(door, (void *)&at, &size)) exit(4);
    if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fd = accept(door, NULL, NULL);
        for (unsigned char ms; read(fd, &ms, 1) == 1;) {
            pause_us(1000L * ms);
            if (write(fd, &ms, 1) != 1) break;
        }
        _exit(0);
    }
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&at, size)) exit(4);
    close(door);
    return fd;
}

__attribute__((noinline)) static void glaze_fetch(unsigned char ms) {
    if (write(kiln, &ms, 1) != 1 || read(kiln, &ms, 1) != 1) exit(0);
    sink++;
}

__attribute__((noinline)) static void glaze_store(void) {
    for (uint64_t end = now_ns() + 60000000u; now_ns() < end;) {
        if (pwrite(clay_fd, slip, sizeof slip, 0) < 0) exit(4);
        fsync(clay_fd);
    }
    sink++;
}

__attribute__((noinline)) static void bisque(void) {
    if (!strcmp(kind, "net")) glaze_fetch(110);
    if (!strcmp(kind, "disk")) glaze_store();
    if (!strcmp(kind, "nap")) pause_us(70000);
    if (!strcmp(kind, "cpu")) work_us(50000);
    sink++;
}

__attribute__((noinline)) static void throw_pot(int mine) {
    pthread_mutex_lock(&wheel);
    if (mine && !fixed) bisque();
    work_us(3);
    pthread_mutex_unlock(&wheel);
    if (mine && fixed) sem_post(&handed);
    sink++;
}

static void *hand(void *arg) {
    long me = (intptr_t)arg;
    for (;;) {
        pause_us(4000 + me * 133);
        uint64_t start = now_ns();
        work_us(heavy ? 1500 : 90);
        throw_pot(strcmp(kind, "none") && atomic_fetch_add(&count, 1) % TURN == TURN - 1);
        told((int)me, start, 3000000);
    }
    return arg;
}

static void *apprentice(void *arg) {
    prctl(PR_SET_NAME, "worker-3");
    for (;;) {
        while (sem_wait(&handed)) continue;
        bisque();
    }
    return arg;
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    char path[4096];
    pthread_t t;
    kind = argc > 3 ? argv[3] : "none";
    fixed = flagged(argc, argv, "fixed");
    heavy = flagged(argc, argv, "heavy");
    snprintf(path, sizeof path, "%s.data", argv[1]);
    clay_fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    unlink(path);
    kiln = answering();
    sem_init(&handed, 0, 0);
    pthread_create(&t, NULL, apprentice, NULL);
    for (long i = 0; i < HANDS; i++) pthread_create(&t, NULL, hand, (void *)(intptr_t)i);
    pause_us((long)(seconds * 1e6));
    return 0;
}
