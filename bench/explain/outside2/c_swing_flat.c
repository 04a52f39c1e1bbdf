// video edge: the number of sessions goes up and down (period 12 s), each with one 200 KB buffer that comes from and goes back to
// the kernel (fixed mmap threshold): memory swings, nothing grows
#include "util.h"
struct sess {
    char *buf, *name;
};
NOINLINE struct sess session_open(unsigned id) {
    struct sess s;
    s.buf = malloc(200 * 1024);
    for (int i = 0; i < 200 * 1024; i += 1024)
        s.buf[i] = id;
    s.name = malloc(64);
    snprintf(s.name, 64, "session-%u", id);
    return s;
}
int main(void) {
    static struct sess s[400];
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    double t0 = now();
    int n = 0, head = 0, tail = 0;
    while (now() - t0 < RUN_LIMIT) {
        int want = 60 + (int)(swing(now() - t0 + 3, 12) * 200);
        while (n < want) {
            s[head++ % 400] = session_open(head);
            n++;
        }
        while (n > want) {
            free(s[tail % 400].buf);
            free(s[tail++ % 400].name);
            n--;
        }
        free(s[tail % 400].buf); /* one session ends, one begins */
        free(s[tail++ % 400].name);
        s[head++ % 400] = session_open(head);
        live_ = n * 200l * 1024;
        truth();
        nap(40);
    }
    return 0;
}
