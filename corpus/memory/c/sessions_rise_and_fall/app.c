// A video edge. The number of sessions rises and falls with a period of 12 s; each has one buffer of 200 KB that
// glibc maps by itself.
#include "../common.h"

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
    ready();
    for (;;) {
        int want = 60 + (int)(swing(now() - t0 + 3, 12) * 200);
        while (n < want) {
            s[head % 400] = session_open(head);
            head++, n++;
        }
        while (n > want) {
            free(s[tail % 400].buf);
            free(s[tail++ % 400].name);
            n--;
        }
        free(s[tail % 400].buf); /* one session ends, one starts */
        free(s[tail++ % 400].name);
        s[head % 400] = session_open(head);
        head++;
        nap(40);
    }
}
