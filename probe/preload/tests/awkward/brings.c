// Names the libraries that are in the process, but the probe's.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    free(malloc(100000));
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096], before[4096] = "";
    while (fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (!path || strstr(path, "highwater") || strcmp(path, before) == 0) continue;
        fputs(strcpy(before, path), stdout);
    }
    fclose(maps);
    return 0;
}
