// frame grabber: frames are handed to other processes in POSIX shared memory; one kind of frame stays mapped for ever
#include "util.h"
#include <fcntl.h>
#include <sys/mman.h>
#define FRAME (640 * 480 * 3)
static unsigned char *export_frame(unsigned id) {
    char name[64];
    snprintf(name, sizeof name, "/hwframe-%d-%u", getpid(), id);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, FRAME))
        return 0;
    unsigned char *p = mmap(0, FRAME, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    shm_unlink(name);
    if (p == MAP_FAILED)
        return 0;
    for (size_t i = 0; i < FRAME; i += 256)
        p[i] = id + i;
    return p;
}
int main(void) {
    static unsigned char *ring[16];
    static char *meta[4000];
    double t0 = now();
    unsigned n = 0;
    while (now() - t0 < RUN_LIMIT) {
        unsigned char *f = export_frame(++n);
        if (n % 4 == 0) {
            lost_ += FRAME; /* key frame: "the consumer unmaps it" */
        } else {
            unsigned char **r = &ring[n % 16];
            if (*r)
                munmap(*r, FRAME);
            *r = f;
        }
        for (int k = 0; k < 20; k++) {
            unsigned i = rnd() % 4000;
            free(meta[i]);
            meta[i] = malloc(rng(500, 3000));
            meta[i][0] = 1;
        }
        truth();
        nap(160);
    }
    return 0;
}
