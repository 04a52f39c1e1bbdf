// Classic shapes of allocation, each a fixed amount of work: `shapes NAME SEED`. Prints one line of
// JSON: wall and CPU nanoseconds, peak and end RSS in bytes, faults. What is live at the end of a
// shape is freed before the end RSS is read.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint64_t seed = 1;

static uint64_t next(uint64_t *state) {
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1DULL;
}
static size_t below(uint64_t *state, size_t limit) { return (size_t)(next(state) % limit); }

static void *take(size_t size) {
    char *block = malloc(size);
    if (!block) exit(2);
    // One byte in each page: memory that is not touched costs nothing.
    for (size_t at = 0; at < size; at += 4096) block[at] = 1;
    return block;
}

static void run_threads(int count, void *(*run)(void *)) {
    pthread_t threads[64];
    for (intptr_t i = 0; i < count; i++) pthread_create(&threads[i], NULL, run, (void *)(i + 1));
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

// Messages are made by two threads and freed by two others.
#define RING 4096
static void *ring[2][RING];

static void *hand_off(void *number) {
    int pair = (int)((intptr_t)number - 1) / 2;
    int makes = (int)(intptr_t)number % 2;
    uint64_t random = seed + (uint64_t)(intptr_t)number;
    for (size_t i = 0; i < 400000; i++) {
        void **slot = &ring[pair][i % RING];
        void *message = makes ? take(64 + below(&random, 1400)) : NULL;
        for (;;) {
            void *has = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
            if (!has == makes) {
                __atomic_store_n(slot, message, __ATOMIC_RELEASE);
                if (!makes) free(has);
                break;
            }
            usleep(50);
        }
    }
    return NULL;
}
static void handoff(void) { run_threads(4, hand_off); }

// Threads replace blocks in a table of their own and leave it to the thread that follows them.
static void *tables[4][2000];

static void *larson_thread(void *number) {
    uint64_t random = seed + (uint64_t)(intptr_t)number;
    void **table = tables[(intptr_t)number - 1];
    for (int i = 0; i < 60000; i++) {
        void **slot = &table[below(&random, 2000)];
        free(*slot);
        *slot = take(16 + below(&random, 500));
    }
    return NULL;
}
static void larson(void) {
    for (int round = 0; round < 8; round++) {
        seed += 100;
        run_threads(4, larson_thread);
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2000; k++) free(tables[i][k]);
}

// Generations of blocks, each of other sizes; one in ten survives, anywhere.
static void survivors(void) {
    static void *kept[60000], *passing[60000];
    uint64_t random = seed;
    size_t survivors = 0;
    for (int generation = 0; generation < 8; generation++) {
        for (int i = 0; i < 60000; i++)
            passing[i] = take(24 + below(&random, 100) + (size_t)generation * 40);
        for (int i = 0; i < 60000; i++)
            if (below(&random, 10) == 0 && survivors < 60000) kept[survivors++] = passing[i];
            else free(passing[i]);
    }
    for (size_t i = 0; i < survivors; i++) free(kept[i]);
}

static void aligned(void) {
    static void *live[4000];
    uint64_t random = seed;
    for (int i = 0; i < 300000; i++) {
        void **slot = &live[below(&random, 4000)];
        free(*slot);
        size_t alignment = (size_t)16 << below(&random, 5);
        *slot = memalign(alignment, 1 + below(&random, 2000));
        if (!*slot) exit(2);
        *(char *)*slot = 1;
    }
    for (int i = 0; i < 4000; i++) free(live[i]);
}

static void big(void) {
    static void *live[24];
    uint64_t random = seed;
    for (int i = 0; i < 2500; i++) {
        void **slot = &live[below(&random, 24)];
        free(*slot);
        *slot = take(((size_t)64 << 10) + below(&random, (size_t)2 << 20));
    }
    for (int i = 0; i < 24; i++) free(live[i]);
}

static void *many(void *number) {
    void *live[200] = {0};
    uint64_t random = seed + (uint64_t)(intptr_t)number;
    for (int i = 0; i < 60000; i++) {
        void **slot = &live[below(&random, 200)];
        free(*slot);
        *slot = take(16 + below(&random, 240));
    }
    for (int i = 0; i < 200; i++) free(live[i]);
    return NULL;
}
static void threads(void) { run_threads(64, many); }

static const struct {
    const char *name;
    void (*run)(void);
} shapes[] = {{"handoff", handoff}, {"larson", larson}, {"survivors", survivors},
              {"aligned", aligned}, {"big", big},       {"threads", threads}};

static long kib(const char *key) {
    static char text[4096];
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) return -1;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *line = strstr(text, key);
    return line ? strtol(line + strlen(key), NULL, 10) : -1;
}

static double ns(struct timeval t) { return (double)t.tv_sec * 1e9 + (double)t.tv_usec * 1e3; }

int main(int count, char **words) {
    if (count > 2) seed = strtoull(words[2], NULL, 10) | 1;
    for (size_t i = 0; count > 1 && i < sizeof shapes / sizeof shapes[0]; i++) {
        if (strcmp(words[1], shapes[i].name)) continue;
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        shapes[i].run();
        clock_gettime(CLOCK_MONOTONIC, &end);
        struct rusage used;
        getrusage(RUSAGE_SELF, &used);
        printf("{\"wall_ns\": %.0f, \"user_ns\": %.0f, \"system_ns\": %.0f, \"peak_rss_bytes\": %ld, "
               "\"end_rss_bytes\": %ld, \"minor_faults\": %ld, \"major_faults\": %ld}\n",
               (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec),
               ns(used.ru_utime), ns(used.ru_stime), kib("VmHWM:") * 1024, kib("VmRSS:") * 1024,
               used.ru_minflt, used.ru_majflt);
        return 0;
    }
    return 1;
}
