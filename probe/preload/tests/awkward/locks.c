// Locks all memory as an ordinary user, with a limit that is just enough for what is the program's own, and says what came
// of it.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

// All mappings but the probe's, bytes. Where memory cannot have a name, the probe's first page has one alone, and the
// others follow it without a gap.
static unsigned long own(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096], path[4096];
    unsigned long from, to, sum = 0, probes_end = 0;
    while (fgets(line, sizeof line, maps)) {
        path[0] = 0;
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %4095s", &from, &to, path) < 2 || from >= 1UL << 63) continue;
        if (strstr(path, "highwater") || (!path[0] && from == probes_end))
            probes_end = to;
        else
            sum += to - from;
    }
    fclose(maps);
    return sum;
}

static void says(const char *what, int result) {
    printf("%s: %d %s\n", what, result, result ? strerror(errno) : "");
    fflush(stdout);
}

static void maps_in(const char *what, unsigned long bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    says(what, at == MAP_FAILED ? -1 : 0);
}

static unsigned long locked(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long kilobytes = 0;
    while (fgets(line, sizeof line, status)) sscanf(line, "VmLck: %lu", &kilobytes);
    fclose(status);
    return kilobytes << 10;
}

int main(int argc, char **argv) {
    long more = argc > 1 ? atol(argv[1]) : 1 << 20;
    free(malloc(100000));
    struct rlimit limit = {own() + more, own() + more};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) || (geteuid() == 0 && setuid(65534))) return 9;
    says("on fault", mlockall(MCL_CURRENT | MCL_ONFAULT));
    says("unlocked", munlockall());
    says("all", mlockall(MCL_CURRENT | MCL_FUTURE));
    errno = 0;
    says("more than its own", locked() > own());
    maps_in("a little later", 256 << 10);
    maps_in("too much later", 64 << 20);
    // Of what is there now alone: what was set for later ends.
    says("now", mlockall(MCL_CURRENT));
    maps_in("much later", 64 << 20);
    says("unlocked", munlockall());
    errno = 0;
    says("wrong", mlockall(1 << 20));
    return 0;
}
