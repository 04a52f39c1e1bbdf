// A collection takes 400 records a second. Its pointers are of a kind that a search of memory may miss. Modes:
// upper_bits (a type in the pointers' upper bits), tagged_tree (a radix tree with two bits in each pointer),
// packed_rows (no pointer is aligned), shared_index (the pointers lie in shared memory), behind_header (they point
// behind a header), chunk_queue (a queue of chunks). It fills for ten minutes; with a second argument it is full, and
// after that each record takes the place of an older one.
#include "../common.h"
#include <sys/mman.h>

static unsigned room = 240000;

NOINLINE static char *make_record(unsigned n) {
    char *record = malloc(300 + rnd() % 900);
    memset(record, n, 300);
    return record;
}

static void *table(size_t row) {
    static void *rows;
    return rows ? rows : (rows = calloc(room, row));
}

static void upper_bits(unsigned n) {
    uint64_t *at = (uint64_t *)table(sizeof *at) + n % room;
    free((void *)(*at & 0xffffffffffff));
    *at = (uint64_t)(uintptr_t)make_record(n) | 0xfffcull << 48;
}

NOINLINE static uintptr_t *make_node(void) {
    return calloc(16, sizeof(uintptr_t));
}

static void tagged_tree(unsigned n) {
    static uintptr_t *root;
    unsigned key = n % room * 2654435761u;
    uintptr_t *at = root ? root : (root = make_node());
    for (int shift = 28; shift > 12; shift -= 4) {
        uintptr_t *slot = &at[key >> shift & 15];
        if (!*slot)
            *slot = (uintptr_t)make_node() | 1;
        at = (uintptr_t *)(*slot & ~3ul);
    }
    free((void *)(at[key >> 12 & 15] & ~3ul));
    at[key >> 12 & 15] = (uintptr_t)make_record(n) | 2;
}

static void packed_rows(unsigned n) {
    struct __attribute__((packed)) row {
        uint8_t kind;
        uint32_t key;
        char *record;
    } *at = (struct row *)table(sizeof *at) + n % room;
    free(at->record);
    *at = (struct row){1, n, make_record(n)};
}

static void shared_index(unsigned n) {
    static char **index;
    if (!index) {
        int fd = memfd_create("index", 0);
        if (fd < 0 || ftruncate(fd, room * sizeof *index))
            exit(1);
        index = mmap(NULL, room * sizeof *index, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    free(index[n % room]);
    index[n % room] = make_record(n);
}

NOINLINE static char *make_with_header(unsigned n) {
    size_t size = 64 + rnd() % 1000, *header = malloc(64 + size);
    header[0] = size;
    memset(header + 8, n, size);
    return (char *)(header + 8);
}

static void behind_header(unsigned n) {
    char **at = (char **)table(sizeof *at) + n % room;
    if (*at)
        free(*at - 64);
    *at = make_with_header(n);
}

static void chunk_queue(unsigned n) {
    static struct chunk {
        struct chunk *next;
        unsigned many;
        char *record[100];
    } *first, *last;
    static unsigned chunks;
    if (!last || last->many == 100) {
        struct chunk *c = calloc(1, sizeof *c);
        if (last)
            last->next = c;
        else
            first = c;
        last = c;
        chunks++;
    }
    last->record[last->many++] = make_record(n);
    if (chunks * 100 <= room + 100)
        return;
    struct chunk *oldest = first;
    first = oldest->next;
    chunks--;
    for (unsigned i = 0; i < oldest->many; i++)
        free(oldest->record[i]);
    free(oldest);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*add)(unsigned);
    } modes[] = {{"upper_bits", upper_bits},     {"tagged_tree", tagged_tree},     {"packed_rows", packed_rows},
                 {"shared_index", shared_index}, {"behind_header", behind_header}, {"chunk_queue", chunk_queue}};
    void (*add)(unsigned) = NULL;
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name))
            add = modes[i].add;
    if (!add)
        return 2;
    unsigned n = 0;
    if (argc > 2)
        for (room = 4000; n < 2 * room; n++)
            add(n);
    ready();
    for (double start = now() - n / 400.0;; n++) {
        add(n);
        if (n % 20 == 0)
            serve_requests(60);
        while (now() < start + n / 400.0)
            nap(5);
    }
}
