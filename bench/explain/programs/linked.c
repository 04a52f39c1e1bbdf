// Two allocators: the program's own (mi_*, linked in) and the C library's; the first argument says which one grows.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *mi_malloc(size_t);
void mi_free(void *);
static void *volatile sink;
__attribute__((noinline)) void own_lost(void) { sink = memset(mi_malloc(1500), 1, 1500); }
__attribute__((noinline)) void libc_lost(void) { sink = memset(malloc(1500), 1, 1500); }
int main(int count, char **words) {
    static void *a[800], *b[800];
    for (unsigned turn = 0; count > 1; turn++) {
        for (int i = 0; i < 200; i++) {
            unsigned at = (turn * 31 + i * 7) % 800;
            mi_free(a[at]); a[at] = memset(mi_malloc(40 + at), 1, 40);
            free(b[at]); b[at] = memset(malloc(40 + at), 1, 40);
        }
        for (int i = 0; i < 6; i++) { if (words[1][0] == 'o') own_lost(); if (words[1][0] == 'c') libc_lost(); }
        usleep(20000);
    }
}
