/* Allocates as fast as it can until a line comes, then keeps 400 blocks of 16001 bytes a second. At the next line it
 * prints how many, and ends. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int a_line_is_there(int milliseconds) {
    struct pollfd input = {0, POLLIN, 0};
    return poll(&input, 1, milliseconds) == 1;
}

__attribute__((noinline)) static void *keep(void) {
    return malloc(16001);
}

int main(void) {
    char line[64];
    int kept = 0;
    puts("ready");
    fflush(stdout);
    while (!a_line_is_there(0)) {
        for (int round = 0; round < 1000; round++) {
            void *volatile block = malloc(64);
            free(block);
        }
    }
    if (read(0, line, sizeof line) <= 0) {
        return 1;
    }
    while (!a_line_is_there(10)) {
        for (int round = 0; round < 4; round++, kept++) {
            *(char *)keep() = 1;
        }
    }
    printf("%d\n", kept);
    return 0;
}
