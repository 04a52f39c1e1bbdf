// Threads of all kinds and stack sizes, and what they leave.
#include "guest.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct work { long count, bytes, faults; };

static void *worker(void *given) {
    struct work *work = given;
    work->faults = churn(work->count, work->bytes);
    return given;
}

// step threads(count: 1 4 40, stack: 16384 65536 1048576, bytes: 24 1000 300000 1..100000) not in under_memory_limit
void threads(long count, long stack, long bytes) {
    pthread_t made[64];
    struct work work[64];
    pthread_attr_t how;
    long faults = 0, started = 0;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, stack);
    for (long each = 0; each < count; each++) {
        work[each] = (struct work){200, bytes, 0};
        if (pthread_create(&made[started], &how, worker, &work[each]) == 0) started++;
    }
    for (long each = 0; each < started; each++) {
        pthread_join(made[each], NULL);
        faults += work[each].faults;
    }
    pthread_attr_destroy(&how);
    say("threads: %ld started, %ld faults", started, faults);
}

static void *run_body(void *given) {
    (*(body *)given)();
    return NULL;
}

// around in_thread(stack: 131072 8388608 131072..1000000)
void in_thread(body inner, long stack) {
    pthread_t made;
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, stack);
    int code = pthread_create(&made, &how, run_body, &inner);
    if (code == 0) code = pthread_join(made, NULL);
    pthread_attr_destroy(&how);
    say("in_thread: %d", code);
}

// The stack is the program's own, with nothing readable at either side of it.
// around in_thread_on_own_stack(stack: 131072 262144)
void in_thread_on_own_stack(body inner, long stack) {
    char *room = mmap(NULL, stack + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(room + 4096, stack, PROT_READ | PROT_WRITE);
    pthread_t made;
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setstack(&how, room + 4096, stack);
    int code = pthread_create(&made, &how, run_body, &inner);
    if (code == 0) code = pthread_join(made, NULL);
    pthread_attr_destroy(&how);
    munmap(room, stack + 8192);
    say("in_thread_on_own_stack: %d", code);
}

static int clone_worker(void *given) {
    worker(given);
    return 0;
}

// A child that shares the memory, on a small stack, without a thread record of its own.
// step cloned(stack: 16384 65536, bytes: 100 200000 1..100000)
void cloned(long stack, long bytes) {
    struct work work = {100, bytes, 0};
    char *room = mmap(NULL, stack + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(room, 4096, PROT_NONE);
    int child = clone(clone_worker, room + 4096 + stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &work);
    say_end("cloned", child);
    munmap(room, stack + 4096);
    say("cloned: %ld faults", work.faults);
}

static pthread_key_t key;
static pthread_once_t key_made = PTHREAD_ONCE_INIT;
static int destroyed;

static void destroy(void *block) {
    free(block);
    destroyed++;
    // Once more: a destructor that sets its key again is called again.
    if (destroyed % 3) pthread_setspecific(key, malloc(50000));
}

static void make_key(void) { pthread_key_create(&key, destroy); }

static void *with_key(void *given) {
    pthread_setspecific(key, malloc(70000));
    return given;
}

// step thread_destructors(rounds: 1 5)
void thread_destructors(long rounds) {
    pthread_once(&key_made, make_key);
    destroyed = 0;
    for (long round = 0; round < rounds; round++) {
        pthread_t made;
        if (pthread_create(&made, NULL, with_key, NULL) == 0) pthread_join(made, NULL);
    }
    say("thread_destructors: %d", destroyed);
}

static void *waiting(void *given) {
    void *block = malloc(400000);
    pthread_cleanup_push(free, block);
    for (;;) pause();
    pthread_cleanup_pop(0);
    return given;
}

// Cancelling opens libgcc_s.so.1; a root without it or a filter refuses that, and the program ends.
// step cancelled(rounds: 1 6)
void cancelled(long rounds) {
    int ended = 0;
    for (long round = 0; round < rounds; round++) {
        pthread_t made;
        void *result = NULL;
        if (pthread_create(&made, NULL, waiting, NULL)) continue;
        pthread_cancel(made);
        pthread_join(made, &result);
        ended += result == PTHREAD_CANCELED;
    }
    say("cancelled: %d", ended);
}

// Blocks freed by a thread that did not allocate them, after that one has ended.
static void *makes(void *given) {
    void **blocks = given;
    for (int each = 0; each < 100; each++) memset(blocks[each] = malloc(5000), each, 5000);
    return NULL;
}

// step handed_over(rounds: 1 4)
void handed_over(long rounds) {
    long faults = 0;
    for (long round = 0; round < rounds; round++) {
        void *blocks[100] = {0};
        pthread_t made;
        if (pthread_create(&made, NULL, makes, blocks)) continue;
        pthread_join(made, NULL);
        for (int each = 0; each < 100; each++) {
            faults += ((char *)blocks[each])[4999] != each;
            free(blocks[each]);
        }
    }
    say("handed_over: %ld faults", faults);
}

static volatile int is_busy;
static void *busy(void *given) {
    while (is_busy) churn(100, (long)given);
    return NULL;
}

// The body runs while other threads allocate: forks, exits and closes happen amid that.
// around among_threads(count: 1 3, bytes: 100 100000 1..400000)
void among_threads(body inner, long count, long bytes) {
    pthread_t made[4];
    int was_busy = is_busy;
    is_busy = 1;
    long started = 0;
    for (long each = 0; each < count; each++) started += pthread_create(&made[started], NULL, busy, (void *)bytes) == 0;
    inner();
    is_busy = was_busy;
    // Inside another body of this kind those of the outer one go on: these end with them.
    for (long each = 0; each < started; each++)
        if (was_busy) pthread_detach(made[each]);
        else pthread_join(made[each], NULL);
    say("among_threads: %ld", started);
}
