// A table under a lock of a rare kind. Requests come by a pipe; the main thread puts them into a ring and counts them
// in an eventfd, at which eight workers wait. A maintenance thread holds the lock now and then. --fault says which
// lock:
//   ticket    tickets over a futex that wakes all; held while computing 60 ms
//   parked    spins, then sleeps on a word of the waiter's own, and is handed to the next; held over a round trip of
//             80 ms
//   permits   a semaphore of three over a futex; three threads each sleep 65 ms with a permit, at the same time
//   token     a byte in a pipe; held over a round trip of 70 ms
//   flock     flock() on a file that each thread opened itself; held over a round trip of 60 ms
//   process   a pthread mutex in shared memory; another process holds it while it sleeps 95 ms
//   yield     a word with sched_yield() between the tries; each request computes 120 us with it (run it beside busy
//             CPUs)
// Healthy: each request takes one of these locks by turns, and what takes long is done without them.
#include "../../common/service.h"
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/syscall.h>

enum { WORKERS = 8, RING = 4096, PERMITS = 3 };
static pthread_mutex_t ring_mutex = PTHREAD_MUTEX_INITIALIZER, *shared_mutex;
static struct request ring[RING];
static unsigned ring_head, ring_tail;
static int arrivals, requests[2], answers[2], token[2];
static __thread int lock_file;
static uint64_t table[256];

static void futex(int *word, int operation, int value) {
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static int next_ticket, served_ticket;

static void take_ticket_lock(void) {
    int mine = __atomic_fetch_add(&next_ticket, 1, __ATOMIC_SEQ_CST), served;
    while ((served = __atomic_load_n(&served_ticket, __ATOMIC_SEQ_CST)) != mine)
        futex(&served_ticket, FUTEX_WAIT, served);
}

static void give_ticket_lock(void) {
    __atomic_fetch_add(&served_ticket, 1, __ATOMIC_SEQ_CST);
    futex(&served_ticket, FUTEX_WAKE, INT_MAX);
}

// A lock with a line of waiters. `line_word` protects the rest for an instant.
struct waiter {
    int woken;
    struct waiter *next;
};
static char line_word;
static struct waiter *line_first, *line_last;
static bool line_taken;

static void enter_line(void) {
    while (__atomic_test_and_set(&line_word, __ATOMIC_SEQ_CST))
        ;
}

static void leave_line(void) {
    __atomic_clear(&line_word, __ATOMIC_SEQ_CST);
}

static void take_parked_lock(void) {
    struct waiter mine = {0, NULL};
    for (int i = 0; i <= 200; i++) {
        enter_line();
        if (!line_taken) {
            line_taken = true;
            leave_line();
            return;
        }
        if (i < 200)
            leave_line();
    }
    if (line_last)
        line_last->next = &mine;
    else
        line_first = &mine;
    line_last = &mine;
    leave_line();
    while (!__atomic_load_n(&mine.woken, __ATOMIC_SEQ_CST))
        futex(&mine.woken, FUTEX_WAIT, 0);
}

static void give_parked_lock(void) {
    enter_line();
    struct waiter *next = line_first;
    line_taken = next;
    if (next && !(line_first = next->next))
        line_last = NULL;
    leave_line();
    if (!next)
        return;
    int *word = &next->woken;
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    futex(word, FUTEX_WAKE, 1);
}

static int permits = PERMITS;

static void take_permit(void) {
    for (;;) {
        int left = __atomic_load_n(&permits, __ATOMIC_SEQ_CST);
        if (left <= 0)
            futex(&permits, FUTEX_WAIT, left);
        else if (__atomic_compare_exchange_n(&permits, &left, left - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return;
    }
}

static void give_permit(void) {
    __atomic_fetch_add(&permits, 1, __ATOMIC_SEQ_CST);
    futex(&permits, FUTEX_WAKE, 1);
}

static void take_token(void) {
    char byte;
    if (!read_all(token[0], &byte, 1))
        exit(4);
}

static void give_token(void) {
    if (!write_all(token[1], "t", 1))
        exit(4);
}

static void take_file_lock(void) {
    flock(lock_file, LOCK_EX);
}

static void give_file_lock(void) {
    flock(lock_file, LOCK_UN);
}

static void take_shared_mutex(void) {
    pthread_mutex_lock(shared_mutex);
}

static void give_shared_mutex(void) {
    pthread_mutex_unlock(shared_mutex);
}

static char yield_word;

static void take_yield_lock(void) {
    while (__atomic_test_and_set(&yield_word, __ATOMIC_SEQ_CST))
        sched_yield();
}

static void give_yield_lock(void) {
    __atomic_clear(&yield_word, __ATOMIC_SEQ_CST);
}

NOINLINE void rebuild_table(void) {
    burn_us(60000);
    use_result(1);
}

NOINLINE void fetch_updates(uint64_t ms) {
    if (ask_peer(ms))
        exit(4);
    use_result(1);
}

NOINLINE void wait_for_batch(void) {
    sleep_ms(65);
    use_result(1);
}

NOINLINE void update_table_slowly(const char *fault) {
    if (!strcmp(fault, "ticket"))
        rebuild_table();
    if (!strcmp(fault, "permits"))
        wait_for_batch();
    if (!strcmp(fault, "parked"))
        fetch_updates(80);
    if (!strcmp(fault, "token"))
        fetch_updates(70);
    if (!strcmp(fault, "flock"))
        fetch_updates(60);
}

static const struct lock {
    const char *fault;
    void (*take)(void);
    void (*give)(void);
    int period_ms; // of the maintenance; 0 where it never has the lock for long
} locks[] = {{"ticket", take_ticket_lock, give_ticket_lock, 680},  {"parked", take_parked_lock, give_parked_lock, 700},
             {"permits", take_permit, give_permit, 900},           {"token", take_token, give_token, 760},
             {"flock", take_file_lock, give_file_lock, 760},       {"process", take_shared_mutex, give_shared_mutex, 0},
             {"yield", take_yield_lock, give_yield_lock, 0}};
enum { LOCKS = sizeof locks / sizeof *locks };

static const struct lock *chosen_lock(uint64_t turn) {
    for (int i = 0; i < LOCKS; i++)
        if (is_variant(locks[i].fault))
            return &locks[i];
    return &locks[turn % LOCKS];
}

static void open_own_lock_file(void) {
    lock_file = open_file("lock", O_RDWR);
}

static void *maintain(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "maintenance-%ld", (long)argument);
    name_thread(name);
    open_own_lock_file();
    for (uint64_t turn = 0;; turn++) {
        const struct lock *lock = chosen_lock(turn);
        if (lock->period_ms)
            sleep_until_multiple(lock->period_ms, 0);
        else
            sleep_ms(100);
        bool locked = !is_variant("none");
        if (!locked)
            update_table_slowly(lock->fault);
        lock->take();
        if (locked)
            update_table_slowly(lock->fault);
        table[1]++;
        lock->give();
    }
    return 0;
}

// Another process, which holds the mutex in shared memory.
NOINLINE void copy_shared_table(bool locked) {
    if (locked)
        pthread_mutex_lock(shared_mutex);
    sleep_ms(95);
    if (!locked)
        pthread_mutex_lock(shared_mutex);
    pthread_mutex_unlock(shared_mutex);
}

static void start_copier(void) {
    shared_mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(shared_mutex, &shared);
    if (fork())
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    name_thread("table-copier");
    for (;; sleep_ms(700))
        copy_shared_table(is_variant("process"));
}

static void handle_request(uint64_t id) {
    const struct lock *lock = chosen_lock(id);
    burn_us(settings.work_us);
    lock->take();
    burn_us(is_variant("yield") ? 120 : 2);
    table[id % 256]++;
    lock->give();
}

static void *work(void *unused) {
    name_thread("worker");
    open_own_lock_file();
    for (;;) {
        uint64_t one;
        if (read(arrivals, &one, sizeof one) != sizeof one)
            continue;
        pthread_mutex_lock(&ring_mutex);
        struct request request = ring[ring_tail++ % RING];
        pthread_mutex_unlock(&ring_mutex);
        handle_request(request.id);
        send_answer(answers[1], &request);
    }
    return unused;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 850, 150, 1);
    name_thread("intake");
    arrivals = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (pipe2(requests, O_CLOEXEC) || pipe2(answers, O_CLOEXEC) || pipe2(token, O_CLOEXEC))
        return 4;
    give_token();
    start_copier();
    start_peer("peer");
    for (int i = 0; i < WORKERS; i++)
        start_thread(work, 0);
    for (long i = 0; i < (is_variant("permits") ? PERMITS : 1); i++)
        start_thread(maintain, (void *)i);
    int for_load[2] = {requests[1], answers[0]};
    start_load("pipe", 2, for_load);
    close(for_load[0]);
    close(for_load[1]);
    struct request request;
    while (read_request(requests[0], &request)) {
        uint64_t one = 1;
        pthread_mutex_lock(&ring_mutex);
        ring[ring_head++ % RING] = request;
        pthread_mutex_unlock(&ring_mutex);
        write_all(arrivals, &one, sizeof one);
    }
    return 0;
}
