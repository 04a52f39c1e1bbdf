// A desk that answers requests, over an allocator that is linked in: glibc's or, with -DOWN, one of its own. First
// argument: draft (a draft a turn is lost), register (a table that only grows), recent (the last 3,000, healthy), rush
// (a peak of which one block in 48 stays). Second: requests in 2 ms (1 unless given). Third: how many threads.
#include "../common.h"
#ifdef OWN // classes of powers of two, lists of free blocks, 1 MB at a time from the kernel
#include <sys/mman.h>

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static void *free_lists[48];
static char *chunk, *chunk_end;

void *malloc(size_t n) {
    int class = 5;
    while (((size_t)1 << class) < n + 16)
        class++;
    size_t size = (size_t)1 << class;
    pthread_mutex_lock(&heap_lock);
    char *p = free_lists[class];
    if (p)
        free_lists[class] = *(void **)(p + 16);
    else {
        if (chunk_end - chunk < (long)size) {
            size_t all = size > MIB ? size : MIB;
            chunk = mmap(0, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            chunk_end = chunk + all;
        }
        p = chunk;
        chunk += size;
    }
    pthread_mutex_unlock(&heap_lock);
    *(long *)p = class;
    return p + 16;
}

void free(void *block) {
    if (!block)
        return;
    char *p = (char *)block - 16;
    int class = *(long *)p;
    pthread_mutex_lock(&heap_lock);
    *(void **)(p + 16) = free_lists[class];
    free_lists[class] = p;
    pthread_mutex_unlock(&heap_lock);
}

void *calloc(size_t many, size_t size) {
    void *p = malloc(many * size);
    return memset(p, 0, many * size);
}

void *realloc(void *block, size_t n) {
    void *p = malloc(n);
    if (block) {
        size_t old = ((size_t)1 << *(long *)((char *)block - 16)) - 16;
        memcpy(p, block, old < n ? old : n);
        free(block);
    }
    return p;
}
#endif

struct slip {
    struct slip *next;
    char text[200];
};
static struct slip *table[65536];
static const char *mode = "recent";
static double rate = 1;

NOINLINE static char *read_request_body(size_t n) {
    char *p = malloc(n / 2);
    p = realloc(p, n);
    return memset(p, 1, n);
}

NOINLINE static void answer_request(void) {
    char *header = memset(calloc(4, 40), 2, 160), *body = read_request_body(100 + rnd() % 900);
    use(body);
    free(header);
    free(body);
}

NOINLINE static void write_draft_slip(void) {
    struct slip *s = malloc(sizeof *s);
    use(memset(s, 3, sizeof *s));
}

NOINLINE static void register_slip(void) {
    struct slip *s = calloc(1, sizeof *s);
    unsigned at = rnd() % 65536;
    memset(s->text, 4, 200);
    s->next = table[at];
    table[at] = s;
}

NOINLINE static void replace_recent_slip(unsigned n) {
    free(table[n % 3000]);
    table[n % 3000] = memset(malloc(sizeof(struct slip)), 5, sizeof(struct slip));
}

NOINLINE static void serve_rush(unsigned turn) { // from the 200th turn to the 600th
    enum { TURNS = 400, EACH = 250, FIRST = 200 };
    static void *crowd[TURNS * EACH];
    unsigned at = (turn - FIRST) * EACH;
    for (int i = 0; turn >= FIRST && turn < FIRST + TURNS && i < EACH; i++) {
        size_t n = 300 + rnd() % 200;
        crowd[at + i] = memset(malloc(n), 6, n);
    }
    for (int i = 0; turn == FIRST + TURNS && i < TURNS * EACH; i++)
        if (i % 48)
            free(crowd[i]);
}

static void *desk_thread(void *none) {
    for (unsigned turn = 0;; turn++) {
        for (int i = 0; i < 10 * rate; i++)
            answer_request();
        for (int i = 0; i < 8; i++) {
            if (!strcmp(mode, "draft"))
                write_draft_slip();
            if (!strcmp(mode, "register"))
                register_slip();
            if (!strcmp(mode, "recent"))
                replace_recent_slip(turn * 8 + i);
        }
        if (!strcmp(mode, "rush"))
            serve_rush(turn);
        nap(20);
    }
    return none;
}

int main(int argc, char **argv) {
    if (argc > 1)
        mode = argv[1];
    if (argc > 2)
        rate = atof(argv[2]);
    for (unsigned n = 0; n < 3000 && !strcmp(mode, "recent"); n++)
        replace_recent_slip(n);
    ready();
    for (int i = 1; argc > 3 && i < atoi(argv[3]); i++) {
        pthread_t t;
        pthread_create(&t, 0, desk_thread, 0);
    }
    desk_thread(0);
}
