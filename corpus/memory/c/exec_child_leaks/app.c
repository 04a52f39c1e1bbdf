// A storage daemon. It starts itself again as the compactor (fork and exec), and a short-lived verifier every 1.5 s.
// The compactor loses the output of segments that hold only tombstones.
#include "../common.h"
#include <sys/wait.h>

struct segment {
    unsigned char *out;
    size_t n;
    int tombs;
};

NOINLINE struct segment merge_segment(unsigned id) {
    struct segment s;
    s.n = rng(20000, 90000);
    s.out = calloc(s.n, 1);
    for (size_t i = 0; i < s.n; i += 64)
        s.out[i] = id;
    s.tombs = rnd() % 5 == 0;
    return s;
}

static int compactor(void) {
    static struct segment pending[120];
    unsigned id = 0;
    for (;;) {
        struct segment s = merge_segment(++id);
        if (!s.tombs) { /* tombstones only: nothing to upload */
            struct segment *p = &pending[id % 120];
            free(p->out);
            *p = s;
        }
        nap(20);
    }
    return 0;
}

static void verify_blocks(char **mem) {
    unsigned sum = 0;
    for (int i = 0; i < 2000; i++) {
        char *c = malloc(3000);
        memcpy(c, mem[i], 3000);
        sum += c[100];
        free(c);
    }
    nap(700);
    _exit(sum == 1);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--compactor"))
        return compactor();
    static char *mem[5000];
    double t0 = now(), next = 3;
    for (int i = 0; i < 5000; i++) {
        mem[i] = malloc(4000);
        memset(mem[i], i, 4000);
    }
    if (fork() == 0) {
        end_with_parent();
        execl("/proc/self/exe", "storaged", "--compactor", (char *)0);
        _exit(127);
    }
    ready();
    for (;;) {
        for (int k = 0; k < 10; k++) {
            unsigned i = rnd() % 5000;
            free(mem[i]);
            mem[i] = malloc(4000);
            memset(mem[i], k, 4000);
        }
        if (now() - t0 > next) {
            next += 1.5;
            if (fork() == 0) {
                end_with_parent();
                verify_blocks(mem);
            }
        }
        while (waitpid(-1, 0, WNOHANG) > 0)
            ;
        nap(15);
    }
}
