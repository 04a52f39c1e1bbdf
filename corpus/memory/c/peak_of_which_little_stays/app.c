// An import that starts 6 s after the start and is over within seconds; what stays of it pins the heap. Modes:
// one_in_64 (one of 64 blocks of 300 bytes stays), last_block (of 150 MB only the last block), one_a_page (one block in
// each page), large_blocks (of blocks of 3 MB nothing, but a small one behind each).
#include "../common.h"

enum { MOST = 1000000 };
static char *row[MOST], *kept[MOST / 9];

static int import_rows(int many, size_t size, int at_once) {
    for (int i = 0; i < many; i++) {
        row[i] = memset(malloc(size), i, size);
        if (i % at_once == 0)
            nap(20);
    }
    nap(1000);
    return many;
}

static void one_in_64(void) {
    int many = import_rows(200000, 300, 2000);
    for (int i = 0; i < many; i++)
        if (i % 64)
            free(row[i]);
}

static void last_block(void) {
    int many = import_rows(30000, 5000, 2000);
    for (int i = 0; i < many - 1; i++)
        free(row[i]);
}

static void one_a_page(void) {
    uintptr_t page = 0;
    int many = import_rows(MOST, 112, MOST), keeps = 0;
    for (int i = 0; i < many; i++) {
        uintptr_t its = (uintptr_t)row[i] >> 12;
        if (its != page && keeps < MOST / 9)
            kept[keeps++] = row[i];
        else
            free(row[i]);
        row[i] = NULL;
        page = its;
    }
}

static void large_blocks(void) {
    free(memset(malloc(8 * MIB), 1, 8 * MIB)); // raises the size from which malloc maps a block by itself
    for (int i = 0; i < 40; i++) {
        row[i] = memset(malloc(3 * MIB), 1, 3 * MIB);
        kept[i] = memset(malloc(2000), 1, 2000);
        nap(100);
    }
    for (int i = 0; i < 40; i++)
        free(row[i]);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    ready();
    for (int n = 0;; n++) {
        if (n == 200 && !strcmp(mode, "one_in_64"))
            one_in_64();
        if (n == 200 && !strcmp(mode, "last_block"))
            last_block();
        if (n == 200 && !strcmp(mode, "one_a_page"))
            one_a_page();
        if (n == 200 && !strcmp(mode, "large_blocks"))
            large_blocks();
        use(row);
        use(kept);
        serve_requests(100);
        nap(30);
    }
}
