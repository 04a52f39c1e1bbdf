// A pool of twelve threads; the main thread passes each connection to it by a semaphore. Requests score a row under a
// lock of the service's own: spin, then futex, without an owner word. A thread reloads the table now and then (150 ms
// of O_DIRECT reads). --fault read: with the lock. --fault convoy: each request computes 4.5 ms with the lock (give it
// bursts: --burst 1 --rate 14). Healthy: the table is reloaded without the lock.
#include "../../common/service.h"
#include <linux/futex.h>
#include <semaphore.h>
#include <sys/syscall.h>

enum { QUEUE = 1024, ROWS = 512, BLOCK = 65536, TABLE_MIB = 192 };
static int lock_word;
static sem_t waiting;
static int queue[QUEUE];
static unsigned queue_head, queue_tail;
static pthread_spinlock_t queue_lock;
static int table_file;
static void *block;
static uint64_t rows[ROWS];

static void acquire(void) {
    for (int i = 0; i < 200; i++) {
        int free = 0;
        if (__atomic_compare_exchange_n(&lock_word, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return;
        __builtin_ia32_pause();
    }
    while (__atomic_exchange_n(&lock_word, 2, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, &lock_word, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}

static void release(void) {
    if (__atomic_exchange_n(&lock_word, 0, __ATOMIC_RELEASE) == 2)
        syscall(SYS_futex, &lock_word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

NOINLINE uint64_t reload_table(double ms) {
    uint64_t sum = read_direct_for_ms(table_file, ms, block, BLOCK, TABLE_MIB << 20);
    rows[1] += sum;
    return sum + 1;
}

NOINLINE void score_row(uint64_t id, double us) {
    uint64_t x = spin(us * rounds_per_us, id);
    rows[x % ROWS] += x;
}

static void *work(void *unused) {
    name_thread("pool-worker");
    for (;;) {
        while (sem_wait(&waiting))
            ;
        pthread_spin_lock(&queue_lock);
        int fd = queue[queue_tail++ % QUEUE];
        pthread_spin_unlock(&queue_lock);
        struct request request;
        if (read_request(fd, &request)) {
            acquire();
            score_row(request.id, is_variant("convoy") ? 4500 : settings.work_us / 4);
            release();
            burn_us(settings.work_us);
            send_answer(fd, &request);
        }
        close(fd);
    }
    return unused;
}

static void *load_tables(void *unused) {
    name_thread("table-loader");
    for (;;) {
        sleep_ms(2600);
        if (is_variant("read")) {
            acquire();
            reload_table(150);
            release();
        } else if (!is_variant("convoy")) {
            reload_table(150);
        }
    }
    return unused;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 150, 300, 12);
    make_big_file("table", TABLE_MIB);
    table_file = open_file("table", O_RDONLY | O_DIRECT);
    block = aligned_alloc(4096, BLOCK);
    sem_init(&waiting, 0, 0);
    pthread_spin_init(&queue_lock, 0);
    int listener = listen_on(settings.port);
    for (int i = 0; i < 12; i++)
        start_thread(work, 0);
    start_thread(load_tables, 0);
    start_load("connect", 0, 0);
    for (;;) {
        int fd = accept_connection(listener);
        pthread_spin_lock(&queue_lock);
        queue[queue_head++ % QUEUE] = fd;
        pthread_spin_unlock(&queue_lock);
        sem_post(&waiting);
    }
}
