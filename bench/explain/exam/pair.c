// Two heaps in one program: mimalloc linked in under its own names for one part, the C library's for the other.
// With -DOVERRIDE: linked in under malloc's name. Names say nothing of what is done. First argument: which heap loses.
#define _GNU_SOURCE
#include <mimalloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; nanosleep(&t, NULL); }
static void *volatile left, *volatile right;
__attribute__((noinline)) void pear(int n) { left = memset(malloc(800), n, 800); }
__attribute__((noinline)) void plum(int n) { right = memset(mi_malloc(800), n, 800); }
int main(int count, char **words) {
    int is_left = count > 1 && !strcmp(words[1], "left");
    for (int n = 0;; n++) {
        pear(n); if (!is_left) free(left);
        plum(n); if (is_left) mi_free(right);
        if (n % 10 == 0) nap(25);
    }
}
