// errno after the first blocks: some allocators set themselves up in the first one, and leave an error of that behind.
// And after arrays of more bytes than there are: allocators differ in what they call that.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    char line[100];
    int seen[6];
    static volatile size_t third = SIZE_MAX / 3;
    static const size_t sizes[] = {16, 3000, 100000, 3000000};
    for (int each = 0; each < 4; each++) {
        errno = 77;
        void *block = malloc(sizes[each]);
        seen[each] = errno;
        free(block);
    }
    void *held = malloc(100);
    errno = 77;
    int refused = reallocarray(held, third, 4) == NULL;
    seen[4] = errno;
    errno = 77;
    refused += calloc(third, 4) == NULL;
    seen[5] = errno;
    free(held);
    int length = snprintf(line, sizeof line, "%d %d %d %d, %d refused: %d %d\n", seen[0], seen[1], seen[2], seen[3], refused,
                          seen[4], seen[5]);
    return write(1, line, length) != length;
}
