// errno after the first blocks: some allocators set themselves up in the first one, and leave an error of that behind.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    char line[100];
    int seen[4];
    static const size_t sizes[] = {16, 3000, 100000, 3000000};
    for (int each = 0; each < 4; each++) {
        errno = 77;
        void *block = malloc(sizes[each]);
        seen[each] = errno;
        free(block);
    }
    int length = snprintf(line, sizeof line, "%d %d %d %d\n", seen[0], seen[1], seen[2], seen[3]);
    return write(1, line, length) != length;
}
