// accept queue, semaphore hand-over, own spin-then-futex lock without an owner word. faults: read, convoy
#include "ex.h"
#include <linux/futex.h>
#include <semaphore.h>
#include <sys/syscall.h>
static int lockw;
static sem_t jobs;
static int ring[1024];
static unsigned qh, qt;
static pthread_spinlock_t rl;
static int bigfd;
static void *dbuf;
static uint64_t rows[512];
static void brk_acquire(void) {
    int c = 0;
    for (int i = 0; i < 200; i++) {
        c = 0;
        if (__atomic_compare_exchange_n(&lockw, &c, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return;
        __builtin_ia32_pause();
    }
    while (__atomic_exchange_n(&lockw, 2, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, &lockw, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}
static void brk_release(void) {
    if (__atomic_exchange_n(&lockw, 0, __ATOMIC_RELEASE) == 2)
        syscall(SYS_futex, &lockw, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}
NOINL uint64_t kelm_reload_table(double ms) {
    uint64_t k = ex_direct_some(bigfd, ms, dbuf, 65536, 192 << 20);
    rows[1] += k;
    return k + 1;
}
NOINL void kelm_score_row(uint64_t id, double us) {
    uint64_t n = us * ex_ipu, x = id | 1;
    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    rows[x & 511] += x;
}
static void *hand(void *v) {
    (void)v;
    ex_name("brkhand");
    for (;;) {
        while (sem_wait(&jobs)) {
        }
        pthread_spin_lock(&rl);
        int s = ring[qt++ & 1023];
        pthread_spin_unlock(&rl);
        struct exreq q;
        if (!ex_full(s, &q, sizeof q, 0)) {
            brk_acquire();
            kelm_score_row(q.id, ex_is("convoy") ? 4500 : O.work_us / 4);
            brk_release();
            EX_BURN_US(O.work_us);
            ex_full(s, &q, sizeof q, 1);
        }
        close(s);
    }
    return 0;
}
static void *loader(void *v) {
    (void)v;
    ex_name("brkload");
    for (;;) {
        ex_sleep_ms(2600);
        if (ex_is("read")) {
            brk_acquire();
            kelm_reload_table(150);
            brk_release();
        } else if (!ex_is("convoy"))
            kelm_reload_table(150);
    }
    return 0;
}
int main(int c, char **v) {
    ex_args(c, v, 21020, 150, 300, 12);
    ex_bigfile("brack.big", 192);
    bigfd = ex_file("brack.big", O_RDONLY | O_DIRECT);
    dbuf = aligned_alloc(4096, 65536);
    sem_init(&jobs, 0, 0);
    pthread_spin_init(&rl, 0);
    int l = ex_listen(O.port);
    for (int i = 0; i < 12; i++)
        ex_thread(hand, 0);
    ex_thread(loader, 0);
    ex_load("conn", 0, 0);
    for (;;) {
        int s = accept(l, 0, 0);
        if (s < 0)
            continue;
        ex_nodelay(s);
        pthread_spin_lock(&rl);
        ring[qh++ & 1023] = s;
        pthread_spin_unlock(&rl);
        sem_post(&jobs);
    }
}
