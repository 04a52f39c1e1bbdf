// Locks all that it has and will have, and says how much of it is locked, in KiB.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(void) {
    free(malloc(100000));
    if (mlockall(MCL_CURRENT | MCL_FUTURE)) return 1;
    char line[200];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "VmLck:", 6)) printf("%d\n", atoi(line + 6));
    return 0;
}
