// Who refuses memory sets errno to ENOMEM (POSIX).
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    volatile size_t huge = SIZE_MAX, two = 2;
    void *small = malloc(10);
    int seen[3];
    errno = 0, seen[0] = malloc(huge) ? ENOMEM : errno;
    errno = 0, seen[1] = calloc(huge, two) ? ENOMEM : errno;
    errno = 0, seen[2] = realloc(small, huge) ? ENOMEM : errno;
    const char *calls[] = {"malloc(SIZE_MAX)", "calloc(SIZE_MAX, 2)", "realloc(block, SIZE_MAX)"};
    int wrong = 0;
    for (int i = 0; i < 3; i++)
        if (seen[i] != ENOMEM) wrong = 1, printf("%s: NULL with errno %d\n", calls[i], seen[i]);
    return wrong;
}
