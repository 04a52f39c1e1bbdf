// A heap of the program's own beside the C library's, or another library's linked in; first argument: which.
// Compiled with mimalloc's sources, whose functions keep their own names.
#define _GNU_SOURCE
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; while (nanosleep(&t, &t)) {} }
static char *volatile seen;
static char *left[3000], *right[3000];
static unsigned long dice_state = 88172645463325252ul;
static unsigned dice(void) { dice_state ^= dice_state << 13; dice_state ^= dice_state >> 7; dice_state ^= dice_state << 17; return dice_state >> 11; }
static void hum(int n) {
    while (n--) {
        unsigned at = dice() % 3000, size = 8 + dice() % 600;
        free(left[at]); left[at] = malloc(size); memset(left[at], n, size);
        mi_free(right[at]); right[at] = mi_malloc(size); memset(right[at], n, size);
    }
}
__attribute__((noinline)) void castor(int n) { char *p = malloc(1500); memset(p, n, 1500); seen = p; }
__attribute__((noinline)) void pollux(int n) { char *p = mi_malloc(1500); memset(p, n, 1500); seen = p; }
// leda: a block of the C library's holds one of the other's, and both are kept, 400 a second.
struct leda { struct leda *next; char *other; };
static struct leda *nest;
__attribute__((noinline)) void leda(int n) { struct leda *l = malloc(sizeof *l); l->other = mi_malloc(300); memset(l->other, n, 300); l->next = nest; nest = l; }

int main(int count, char **words) {
    char which = count > 1 ? *words[1] : 0;
    for (int n = 0;; n++) {
        if (which == 'c') castor(n);
        if (which == 'p') pollux(n);
        if (which == 'l') leda(n);
        if (n % 10 == 0) { hum(100); nap(25); }
    }
}
