// Arrays and what they leave. Modes: doubling (an array of numbers doubles when it is full), rehashed (a hash table
// doubles until its 300,000 keys are in, healthy), shrunk (an array of 256 MB is cut to 1 MB, healthy).
#include "../common.h"

static long *numbers;
static size_t many, room;

NOINLINE static void append_number(long n) {
    if (many == room) {
        room = room ? room * 2 : 1024;
        numbers = realloc(numbers, room * sizeof *numbers);
    }
    numbers[many++] = n;
}

static void insert_key(size_t *table, size_t size, size_t key) {
    size_t at = key % size;
    while (table[at])
        at = (at + 1) % size;
    table[at] = key;
}

static size_t *keys, key_room, key_count;

NOINLINE static void rehash_table(void) {
    size_t size = key_room ? key_room * 2 : 4096, *fresh = calloc(size, sizeof *fresh);
    for (size_t i = 0; i < key_room; i++)
        if (keys[i])
            insert_key(fresh, size, keys[i]);
    free(keys);
    keys = fresh;
    key_room = size;
}

static void insert_keys(int n) {
    for (; n-- && key_count < 300000; key_count++) {
        if (key_count * 2 >= key_room)
            rehash_table();
        insert_key(keys, key_room, (rnd() & 0xffffff) * 64ul | 8);
    }
}

NOINLINE static void shrink_snapshot(void) {
    char *snapshot = NULL;
    for (size_t i = 1; i <= 64; i++, nap(60)) {
        snapshot = realloc(snapshot, i * 4 * MIB);
        memset(snapshot + (i - 1) * 4 * MIB, i, 4 * MIB);
    }
    use(realloc(snapshot, MIB));
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "shrunk"))
        shrink_snapshot();
    if (strcmp(mode, "rehashed"))
        ready();
    for (long n = 0;; n++) {
        if (!strcmp(mode, "doubling"))
            for (int i = 0; i < 1000; i++)
                append_number(n);
        if (!strcmp(mode, "rehashed")) {
            insert_keys(400);
            if (n == 750)
                ready();
        }
        serve_requests(100);
        nap(strcmp(mode, "doubling") ? 20 : 5);
    }
}
