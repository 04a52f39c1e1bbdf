// Impossible sizes: null, errno, and nothing counted; a resize that fails leaves the block as it was.
#include "truth.h"
#include <errno.h>
#include <stdint.h>

int main(void) {
    // A number that the compiler cannot see through.
    volatile size_t half = SIZE_MAX / 2, most = PTRDIFF_MAX;
    mark();
    char *kept = took(malloc(1000));
    kept[999] = 7;
    for (int round = 0; round < 100; round++) {
        errno = 0;
        MUST(!calloc(half, 16) && errno == ENOMEM);
        errno = 0;
        MUST(!reallocarray(NULL, half, 16) && errno == ENOMEM);
        errno = 0;
        MUST(!malloc(most) && errno == ENOMEM);
        MUST(!realloc(kept, most) && kept[999] == 7);
        void *block = &block;
        MUST(posix_memalign(&block, 64, most) == ENOMEM);
        MUST(posix_memalign(&block, 3, 100) == EINVAL);
    }
    mark();
    return 0;
}
