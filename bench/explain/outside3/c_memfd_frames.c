// screen recorder: every frame is a memfd that is mapped, filled, sealed and closed; delta frames are unmapped, key frames stay mapped
#define _GNU_SOURCE
#include "work.h"
#include <sys/mman.h>
struct frame {
    unsigned char *at;
    size_t n;
};
NOINLINE struct frame grab_frame(unsigned k) {
    struct frame f = {0, rng(30, 160) * 4096ul};
    int fd = memfd_create("frame", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, f.n))
        exit(1);
    f.at = mmap(0, f.n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(f.at, k, f.n);
    close(fd);
    return f;
}
int main(void) {
    static struct frame last[12];
    double t0 = now();
    for (unsigned k = 0; now() - t0 < RUN_LIMIT; k++) {
        struct frame f = grab_frame(k);
        if (k % 8 == 0) {
            lost_ += f.n;
        } else {
            struct frame *o = &last[k % 12];
            if (o->at)
                munmap(o->at, o->n);
            *o = f;
        }
        bystanders(90);
        truth();
        nap(25);
    }
    return 0;
}
