/* Grows by 64 KiB every 10 ms, for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        char *block = malloc(65536);
        if (block != NULL) {
            memset(block, 1, 65536);
        }
        usleep(10000);
    }
}
