/* Writes over the first page of the probe's memory ("all" of it, or its "version"), and goes on losing blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile lost;

static char *probe_page(void) {
    char line[512];
    unsigned long start = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !start && fgets(line, sizeof line, maps))
        if (strstr(line, "highwater-probe") && strstr(line, "rw-")) sscanf(line, "%lx-", &start);
    if (maps) fclose(maps);
    return (char *)start;
}

int main(int count, char **words) {
    char *page = probe_page();
    if (page && count > 1 && !strcmp(words[1], "all")) memset(page + 64, 0xa5, 4096 - 64);
    if (page && count > 1 && !strcmp(words[1], "version")) ((unsigned *)page)[4] += 1;
    for (;;) {
        lost = malloc(900);
        memset(lost, 1, 900);
        usleep(2000);
    }
}
