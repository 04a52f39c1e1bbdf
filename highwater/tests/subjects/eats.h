/* A heap that grows: blocks of 64 KiB at most, touched and never given back. */
#include <stdlib.h>
#include <string.h>

static void eat(long kib) {
    for (; kib > 0; kib -= 64) {
        size_t bytes = 1024 * (size_t)(kib < 64 ? kib : 64);
        char *p = malloc(bytes);
        if (p) memset(p, 1, bytes);
    }
}
