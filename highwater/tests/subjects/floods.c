/* Floods its log: COUNT MiB, then a last line, then sleeps. A write that fails ends it with code 9. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static char line[65536];
    long megabytes = argc > 1 ? atol(argv[1]) : 100;
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    for (long written = 0; written < megabytes * 16; written++) {
        if (write(1, line, sizeof line) != (ssize_t)sizeof line) {
            return 9;
        }
    }
    if (write(1, "flood over\n", 11) != 11) {
        return 9;
    }
    pause();
    return 0;
}
