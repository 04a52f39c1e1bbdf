// Gilds a page, which the C library keeps a copy of that nobody asks for again.
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static unsigned char *copy_page(const unsigned char *page, size_t length) { return memcpy(malloc(length), page, length); }
unsigned gild(const unsigned char *page, size_t length) {
    unsigned char *volatile copy = copy_page(page, length);
    unsigned char *draft = memset(malloc(400), 1, 400);
    unsigned sum = copy[3] + draft[5];
    free(draft);
    return sum;
}
