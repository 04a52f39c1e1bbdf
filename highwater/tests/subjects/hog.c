/* Takes a MiB per millisecond until something stops it; "child" lets a child do it and waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void take(void) {
    for (int taken = 0; taken < 4096; taken++) {
        char *block = malloc(1 << 20);
        if (block == NULL) {
            return;
        }
        memset(block, 1, 1 << 20);
        usleep(1000);
    }
}

int main(int argc, char **argv) {
    printf("ready\n");
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        if (fork() == 0) {
            take();
            return 0;
        }
        wait(NULL);
        pause();
    }
    take();
    return 0;
}
