// Threads that end in every way, and what they keep for themselves.
#include "guest.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/futex.h>
#include <unistd.h>

static void free_larger(void *block) {
    free(realloc(block, 300000));
    free(malloc(500));
}

static int never_written[2];
static pthread_mutex_t wait_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never_signalled = PTHREAD_COND_INITIALIZER;

static void *waits_at(void *point) {
    int before;
    char byte;
    void *block = malloc(1000), *second = malloc(200000);
    pthread_cleanup_push(free_larger, block);
    pthread_cleanup_push(free, second);
    switch ((long)point) {
    case 0: for (;;) usleep(1000); break;
    case 1: for (;;) if (read(never_written[0], &byte, 1) < 0) break; break;
    case 2:
        pthread_mutex_lock(&wait_lock);
        pthread_cleanup_push((void (*)(void *))pthread_mutex_unlock, &wait_lock);
        for (;;) pthread_cond_wait(&never_signalled, &wait_lock);
        pthread_cleanup_pop(1);
        break;
    case 3: for (;;) churn(10, 1000), pthread_testcancel(); break;
    case 4:
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        churn(300, 5000);
        pthread_setcancelstate(before, NULL);
        for (;;) pause();
        break;
    default:
        // Nothing of the C library is in use when it ends here.
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
        for (volatile long round = 0;; round++) {}
    }
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}

// step cancelled_at(point: 0 1 2 3 4 5, count: 1..6)
void cancelled_at(long point, long count) {
    pthread_t made[6];
    long started = 0, ended = 0;
    if (pipe(never_written)) return;
    for (long each = 0; each < count; each++)
        started += pthread_create(&made[started], NULL, waits_at, (void *)point) == 0;
    for (long each = 0; each < started; each++) pthread_cancel(made[each]);
    for (long each = 0; each < started; each++) {
        void *result = NULL;
        pthread_join(made[each], &result);
        ended += result == PTHREAD_CANCELED;
    }
    close(never_written[0]);
    close(never_written[1]);
    say("cancelled_at: %ld of %ld", ended, started);
}

static long exit_bytes;
__attribute__((noinline)) static void exit_below(long depth) {
    void *block = malloc(exit_bytes);
    pthread_cleanup_push(free, block);
    if (depth == 0) pthread_exit((void *)7);
    exit_below(depth - 1);
    pthread_cleanup_pop(0);
}

static void *exits_below(void *depth) {
    exit_below((long)depth);
    return NULL;
}

// step exited_below(depth: 0 1..200, bytes: 24 1..100000)
void exited_below(long depth, long bytes) {
    pthread_t made;
    void *result = NULL;
    exit_bytes = bytes;
    if (pthread_create(&made, NULL, exits_below, (void *)depth) == 0) pthread_join(made, &result);
    say("exited_below: %ld", (long)result);
}

static volatile int ended_detached;
static void *detached_thread(void *bytes) {
    churn(30, (long)bytes);
    __atomic_add_fetch(&ended_detached, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

// step detached(count: 1..60, bytes: 24 1..100000)
void detached(long count, long bytes) {
    pthread_attr_t how;
    pthread_t made;
    long started = 0;
    ended_detached = 0;
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setguardsize(&how, 0);
    for (long each = 0; each < count; each++) started += pthread_create(&made, &how, detached_thread, (void *)bytes) == 0;
    pthread_attr_destroy(&how);
    while (ended_detached < started) usleep(200);
    say("detached: %ld", started);
}

static __thread char local_room[40000];
static __thread long local_count;
static void *uses_local(void *bytes) {
    long faults = 0;
    for (unsigned at = 0; at < sizeof local_room; at += 500) faults += local_room[at] != 0;
    memset(local_room, 1, sizeof local_room);
    local_count += churn(20, (long)bytes) + faults;
    return (void *)local_count;
}

// step local_data(rounds: 1..12, bytes: 24 1..300000)
void local_data(long rounds, long bytes) {
    long faults = 0;
    for (long round = 0; round < rounds; round++) {
        pthread_t made;
        void *result = NULL;
        if (pthread_create(&made, NULL, uses_local, (void *)bytes) == 0) pthread_join(made, &result);
        faults += (long)result;
    }
    say("local_data: %ld faults", faults);
}

enum { KEYS = 60 };
static pthread_key_t keys[KEYS];
static void *sets_keys(void *count) {
    for (long each = 0; each < (long)count; each++) pthread_setspecific(keys[each], malloc(each * 100 + 1));
    return NULL;
}

// step many_keys(count: 1..60, threads: 1..5)
void many_keys(long count, long threads) {
    pthread_t made[5];
    long keyed = 0, started = 0;
    for (long each = 0; each < count; each++) keyed += pthread_key_create(&keys[each], each % 3 ? free : free_larger) == 0;
    for (long each = 0; each < threads; each++)
        started += pthread_create(&made[started], NULL, sets_keys, (void *)keyed) == 0;
    for (long each = 0; each < started; each++) pthread_join(made[each], NULL);
    for (long each = 0; each < keyed; each++) pthread_key_delete(keys[each]);
    say("many_keys: %ld, %ld threads", keyed, started);
}

static pthread_barrier_t all_there;
static pthread_rwlock_t shared_lock = PTHREAD_RWLOCK_INITIALIZER;
static long shared_sum;
static void *meets(void *bytes) {
    for (int round = 0; round < 10; round++) {
        char *block = malloc((long)bytes);
        pthread_barrier_wait(&all_there);
        pthread_rwlock_wrlock(&shared_lock);
        shared_sum += block != NULL;
        free(block);
        pthread_rwlock_unlock(&shared_lock);
    }
    return NULL;
}

// step met(bytes: 24 1..200000) not in under_memory_limit locked
void met(long bytes) {
    pthread_t made[3];
    pthread_barrier_init(&all_there, NULL, 3);
    shared_sum = 0;
    for (int each = 0; each < 3; each++)
        if (pthread_create(&made[each], NULL, meets, (void *)bytes)) _exit(92);
    for (int each = 0; each < 3; each++) pthread_join(made[each], NULL);
    pthread_barrier_destroy(&all_there);
    say("met: %ld", shared_sum);
}

static int raw_word;
static long raw_bytes, raw_faults;
static int raw_thread_start(void *unused) {
    (void)unused;
    raw_faults = churn(100, raw_bytes);
    return 0;
}

// A thread by the system call, without a record in the C library. The other one waits: the two share its data.
// step raw_thread(stack: 16384 65536, bytes: 100 1..300000) not in filtered without_call
void raw_thread(long stack, long bytes) {
    char *room = mmap(NULL, stack + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    mprotect(room, 4096, PROT_NONE);
    raw_word = 1;
    raw_bytes = bytes;
    raw_faults = -1;
    int made = clone(raw_thread_start, room + 4096 + stack, flags, NULL, NULL, NULL, &raw_word);
    while (made > 0 && __atomic_load_n(&raw_word, __ATOMIC_SEQ_CST)) syscall(SYS_futex, &raw_word, FUTEX_WAIT, 1, NULL, NULL, 0);
    munmap(room, stack + 4096);
    say("raw_thread: %d, %ld faults", made > 0, raw_faults);
}

static volatile int is_amid;
static void *makes_threads(void *bytes) {
    pthread_t made;
    do {
        if (pthread_create(&made, NULL, detached_thread, bytes) == 0) pthread_join(made, NULL);
    } while (is_amid);
    return NULL;
}

static void *makes_children(void *bytes) {
    do {
        int child = fork();
        if (child == 0) _exit((int)churn(5, (long)bytes));
        if (child > 0) waitpid(child, NULL, 0);
    } while (is_amid);
    return NULL;
}

static void *opens_plugins(void *bytes) {
    char path[4096];
    for (long kind = 0; is_amid; kind++) {
        void *handle = dlopen(plugin_path(kind % 4, path, sizeof path), RTLD_NOW);
        void *(*work)(size_t) = handle ? (void *(*)(size_t))dlsym(handle, "work") : NULL;
        for (int each = 0; work && each < 5; each++) free(work((long)bytes));
        if (handle) dlclose(handle);
    }
    return NULL;
}

static void *maps_memory(void *bytes) {
    while (is_amid) {
        char *room = mmap(NULL, (long)bytes + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) continue;
        room[(long)bytes] = 1;
        munmap(room, (long)bytes + 8192);
        churn(5, (long)bytes);
    }
    return NULL;
}

static void *cancels_threads(void *bytes) {
    pthread_t made;
    (void)bytes;
    // At least once: the first cancellation installs a handler, which is seen at the end.
    do {
        if (pthread_create(&made, NULL, waits_at, (void *)4)) continue;
        pthread_cancel(made);
        pthread_join(made, NULL);
    } while (is_amid);
    return NULL;
}

// The body runs while another thread makes threads, children, plugins, mappings or cancellations, again and again.
// around amid(activity: 0 1 2 3 4, bytes: 100 1..100000) not in amid in_handler in_root locked filtered without_call in_namespaces
void amid(body inner, long activity, long bytes) {
    static void *(*const all[])(void *) = {makes_threads, makes_children, opens_plugins, maps_memory, cancels_threads};
    pthread_t made;
    is_amid = 1;
    int code = pthread_create(&made, NULL, all[activity], (void *)bytes);
    inner();
    is_amid = 0;
    if (code == 0) pthread_join(made, NULL);
    say("amid: code %d", code);
}
