// full-text index kept in a file that is extended and mapped shared chunk by chunk, all chunks stay mapped and are
// scanned
#define _GNU_SOURCE
#include "util.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
static char path[200];
static void bye(int s) {
    (void)s;
    unlink(path);
    _exit(0);
}
enum { CH = 4 << 20 };
static char *chunk[256];
static int nch;
static int fd;
NOINLINE char *index_extend(void) {
    if (ftruncate(fd, (off_t)(nch + 1) * CH))
        exit(2);
    char *p = mmap(0, CH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)nch * CH);
    chunk[nch++] = p;
    return p;
}
int main(void) {
    double t0 = now();
    snprintf(path, 200, "scratch/index-%d.dat", getpid());
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) {
        perror(path);
        return 1;
    }
    signal(SIGTERM, bye);
    signal(SIGINT, bye);
    size_t used = CH;
    char *c = 0;
    char *post[3000] = {0};
    while (now() - t0 < RUN_LIMIT) {
        for (int k = 0; k < 6; k++) {
            int i = rnd() % 3000;
            size_t n = rng(400, 6000);
            free(post[i]);
            post[i] = malloc(n);
            memset(post[i], k + 1, n);
            if (k < 3) {
                if (used + n > CH) {
                    c = index_extend();
                    used = 0;
                }
                memcpy(c + used, post[i], n);
                used += n;
            }
        }
        nap(12);
    }
    unlink(path);
    return 0;
}
