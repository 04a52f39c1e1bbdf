// An event recorder: one anonymous mapping that mremap makes longer, 256 KB at a time.
#include "../common.h"
#include <sys/mman.h>

static struct {
    char *at;
    size_t n, cap;
} tape;

NOINLINE void tape_extend(size_t by) {
    size_t cap = tape.cap + by;
    char *at = tape.at ? mremap(tape.at, tape.cap, cap, MREMAP_MAYMOVE)
                       : mmap(0, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    tape.at = at;
    tape.cap = cap;
}

NOINLINE void record_event(const char *s, size_t n) {
    if (tape.n + n > tape.cap)
        tape_extend(256 << 10);
    memcpy(tape.at + tape.n, s, n);
    tape.n += n;
}

int main(void) {
    ready();
    for (;;) {
        for (int i = 0; i < 40; i++) {
            size_t n = rng(100, 900);
            char *s = malloc(n);
            memset(s, 'e', n);
            record_event(s, n);
            free(s);
        }
        serve_requests(20);
        nap(10);
    }
}
