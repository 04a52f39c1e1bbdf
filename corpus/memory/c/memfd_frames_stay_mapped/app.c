// A screen recorder. Every frame is a memfd that is mapped, filled and closed; delta frames are unmapped, key frames
// stay mapped.
#include "../common.h"
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
    ready();
    for (unsigned k = 0;; k++) {
        struct frame f = grab_frame(k);
        if (k % 8) {
            struct frame *o = &last[k % 12];
            if (o->at)
                munmap(o->at, o->n);
            *o = f;
        }
        serve_requests(90);
        nap(25);
    }
}
