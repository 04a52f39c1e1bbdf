/* Many threads: data in blocks that are freed elsewhere, threads that end, forks in between. */
#include "probes.h"

#include <fcntl.h>
#include <signal.h>

#define WORKERS 4
#define SLOTS 1024
#define OPERATIONS 60000
#define CROWD 300

struct block {
    uint32_t size;
    uint32_t tag;
    unsigned char data[];
};

/* A pointer in the lower 48 bits and the block's tag above: the tag is also kept outside the block,
 * so that one block with two owners is seen. */
static uint64_t slots[SLOTS];
static volatile int stop;

static uint64_t word_of(const struct block *block) {
    return block ? (uintptr_t)block | (uint64_t)(uint16_t)block->tag << 48 : 0;
}
static struct block *block_of(uint64_t word) {
    return (struct block *)(uintptr_t)(word << 16 >> 16);
}

/* Puts a block where another one was, and gives that one. */
static uint64_t swap(uint64_t *random, const struct block *block) {
    return __atomic_exchange_n(&slots[below(random, SLOTS)], word_of(block), __ATOMIC_ACQ_REL);
}

static struct block *make(uint64_t *random) {
    size_t size = below(random, 16) ? below(random, 512) : below(random, 70000);
    size_t whole = size + sizeof(struct block);
    struct block *block =
        below(random, 8) ? malloc(whole) : memalign((size_t)16 << below(random, 3), whole);
    if (!block) DEFECT("no block of %zu bytes", whole);
    block->size = (uint32_t)size;
    block->tag = (uint32_t)next(random);
    fill(block->data, size, block->tag);
    return block;
}

static struct block *look(uint64_t word) {
    struct block *block = block_of(word);
    if (!block) return NULL;
    if ((uint16_t)block->tag != word >> 48)
        DEFECT("a block was given to two owners under %d threads", WORKERS);
    if (block->size > 200000 || !filled(block->data, block->size, block->tag))
        DEFECT("a block's data changed while it was live under %d threads", WORKERS);
    return block;
}

static struct block *grow(struct block *block, uint64_t *random) {
    size_t size = block->size + below(random, 300);
    uint64_t word = word_of(block);
    struct block *grown = realloc(block, size + sizeof(struct block));
    if (!grown) DEFECT("no block of %zu bytes from realloc", size);
    look((uintptr_t)grown | word >> 48 << 48);
    grown->size = (uint32_t)size;
    fill(grown->data, size, grown->tag);
    return grown;
}

static void *exchange(void *number) {
    uint64_t random = seed + (uintptr_t)number * 0x9E3779B97F4A7C15ULL;
    for (int i = 0; i < OPERATIONS; i++) {
        struct block *block = make(&random);
        struct block *other = look(swap(&random, block));
        if (!other) continue;
        if (below(&random, 4) == 0) other = grow(other, &random);
        look(word_of(other));
        free(other);
    }
    return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *), uintptr_t number) {
    if (pthread_create(thread, NULL, run, (void *)number)) CANNOT("no thread can be started");
}

/* Blocks wander between threads; whoever takes one checks every byte before it is freed. */
void probe_threads(void) {
    pthread_t workers[WORKERS];
    doing("blocks wander between threads");
    for (uintptr_t i = 0; i < WORKERS; i++) start(&workers[i], exchange, i + 1);
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
    for (int i = 0; i < SLOTS; i++) free(look(slots[i]));
}

static void *brief(void *number) {
    uint64_t random = seed + (uintptr_t)number;
    for (int i = 0; i < 64; i++) {
        struct block *block = make(&random);
        free(look(swap(&random, block)));
    }
    return NULL;
}

static pthread_barrier_t all_here;

static void *crowd(void *number) {
    uint64_t random = seed + (uintptr_t)number;
    struct block *block = make(&random);
    pthread_barrier_wait(&all_here);
    free(look(word_of(block)));
    return NULL;
}

/* More threads at once than any table of fixed length foresees; each has a block. */
static void crowded(void) {
    static pthread_t workers[CROWD];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, (size_t)256 << 10);
    pthread_barrier_init(&all_here, NULL, CROWD);
    for (uintptr_t i = 0; i < CROWD; i++)
        if (pthread_create(&workers[i], &small, crowd, (void *)(i + 1)))
            CANNOT("%d threads cannot be started", CROWD);
    for (int i = 0; i < CROWD; i++) pthread_join(workers[i], NULL);
}

/* 1,000 threads come and go; their blocks outlive them and are freed by the others. */
void probe_thread_ends(void) {
    doing("threads start, allocate and end");
    for (uintptr_t round = 0; round < 250; round++) {
        pthread_t workers[WORKERS];
        for (uintptr_t i = 0; i < WORKERS; i++) start(&workers[i], brief, round * WORKERS + i + 1);
        for (int i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
    }
    doing("300 threads allocate at once");
    crowded();
    doing("blocks of threads that ended are freed");
    for (int i = 0; i < SLOTS; i++) free(look(slots[i]));
}

/* Every other seed lets half of the threads take small blocks only, so that they are hardly ever
 * outside of the allocator; the others mix in large blocks, which have locks of their own. Which of
 * the two catches a lock differs from allocator to allocator: the check tries both. */
static void *churn(void *number) {
    uint64_t random = seed + (uintptr_t)number;
    int small = seed / 2 % 2 && (uintptr_t)number % 2;
    void *kept[64] = {0};
    for (unsigned i = 0; !stop; i++) {
        void **slot = &kept[small ? i % 64 : below(&random, 64)];
        free(*slot);
        size_t size = 16 + (i * 40) % 480;
        if (!small) size = below(&random, 16) ? below(&random, 2000) : below(&random, 400000);
        *slot = malloc(size);
    }
    for (int i = 0; i < 64; i++) free(kept[i]);
    return NULL;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Blocks of the parent that its children overwrite in their own copy of the memory. */
#define FAMILY 64
static unsigned char *family[FAMILY];

static void in_child(void) {
    uint64_t random = seed;
    void *kept[64] = {0};
    doing("a forked child uses its parent's blocks");
    for (unsigned i = 0; i < FAMILY; i++) {
        if (!filled(family[i], 500, i)) DEFECT("a block of the parent is changed in a forked child");
        memset(family[i], 0xEE, 500);
        if (i % 2) free(family[i]);
    }
    doing("a forked child allocates");
    for (int i = 0; i < 2000; i++) {
        void **slot = &kept[below(&random, 64)];
        free(*slot);
        *slot = malloc(below(&random, 3000));
        if (!*slot) DEFECT("malloc gives nothing in a forked child");
        memset(*slot, 1, malloc_usable_size(*slot) ? 1 : 0);
    }
    _exit(0);
}

/* A child needs a millisecond; on a busy machine it may wait for its turn. */
#define CHILD_SECONDS 4.0
/* Short, and the check starts it a dozen times: some locks are held only while the first threads fill an empty heap. */
#define ALL_SECONDS 1.0
/* More than the machine has cores: some allocators lock only when threads must share. */
#define FORK_WORKERS 12

/* Whether a child waits for a processor, not for a lock: runnable, and hardly any CPU time had. */
static int starved(pid_t child) {
    char path[40], text[512], state = 0;
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    int file = open(path, O_RDONLY);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    const char *after = strrchr(text, ')');
    const char *form = ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu";
    if (!after || sscanf(after, form, &state, &user, &system) != 3) return 0;
    return state == 'R' && user + system < (unsigned long)sysconf(_SC_CLK_TCK);
}

static void wait_for(pid_t child, int number) {
    double begin = now(), late = begin + CHILD_SECONDS;
    int status;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now() > late && starved(child) && now() < begin + 4 * CHILD_SECONDS) late = now() + 0.5;
        if (now() > late) {
            kill(child, SIGKILL);
            DEFECT("the child of fork %d hangs in malloc", number);
        }
        usleep(500);
    }
    /* The child has said what happened, and while it did what. */
    if (WIFSIGNALED(status))
        DEFECT("; the child of fork %d died of signal %d", number, WTERMSIG(status));
    if (WEXITSTATUS(status)) DEFECT("; in the child of fork %d", number);
}

/* Forks while other threads hold whatever locks the allocator has; the child then allocates. */
void probe_fork(void) {
    pthread_t workers[FORK_WORKERS];
    doing("a process with threads forks");
    for (unsigned i = 0; i < FAMILY; i++) {
        if (!(family[i] = malloc(500))) DEFECT("no block of 500 bytes");
        fill(family[i], 500, i);
    }
    for (uintptr_t i = 0; i < FORK_WORKERS; i++) start(&workers[i], churn, i + 1);
    double end = now() + ALL_SECONDS;
    for (int i = 1; now() < end; i++) {
        pid_t child = fork();
        if (child < 0) CANNOT("fork failed: %s", strerror(errno));
        if (child == 0) in_child();
        wait_for(child, i);
    }
    stop = 1;
    doing("the threads of a process that forked end");
    for (int i = 0; i < FORK_WORKERS; i++) pthread_join(workers[i], NULL);
    for (unsigned i = 0; i < FAMILY; i++)
        if (!filled(family[i], 500, i)) DEFECT("a forked child changed its parent's blocks");
}
