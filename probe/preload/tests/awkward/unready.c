// An allocator whose free needs what its first malloc sets up, also for a null pointer, as mimalloc 3's does.
#include <stddef.h>
#include <string.h>

static char room[64 << 20];
static size_t used;
static char *start;

static void *take(size_t align, size_t bytes) {
    start = room;
    used = (used + sizeof bytes + align - 1) & ~(align - 1);
    if (bytes > sizeof room || used + bytes > sizeof room) return NULL;
    void *block = room + used;
    memcpy((char *)block - sizeof bytes, &bytes, sizeof bytes);
    used += bytes;
    return block;
}

static size_t size_of(void *block) {
    size_t bytes;
    memcpy(&bytes, (char *)block - sizeof bytes, sizeof bytes);
    return bytes;
}

void free(void *block) {
    // Nothing is used again; before the first block this is a write to address 0.
    *(volatile char *)start = block != NULL;
}

void *malloc(size_t bytes) { return take(16, bytes); }
void *calloc(size_t count, size_t bytes) {
    size_t all;
    return __builtin_mul_overflow(count, bytes, &all) ? NULL : malloc(all);
}
void *realloc(void *block, size_t bytes) {
    void *moved = malloc(bytes);
    if (moved && block) memcpy(moved, block, size_of(block) < bytes ? size_of(block) : bytes);
    return moved;
}
void *memalign(size_t align, size_t bytes) { return take(align < 16 ? 16 : align, bytes); }
void *aligned_alloc(size_t align, size_t bytes) { return memalign(align, bytes); }
int posix_memalign(void **block, size_t align, size_t bytes) { return (*block = memalign(align, bytes)) ? 0 : 12; }
size_t malloc_usable_size(void *block) { return block ? size_of(block) : 0; }
