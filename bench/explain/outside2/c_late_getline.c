// control server: commands read with getline; a client version that is rolled out after 15 s takes a way out that forgets the line
#include "util.h"
static double t0;
static unsigned long bytes;
NOINLINE int serve_client(char *text, size_t n) {
    FILE *in = fmemopen(text, n, "r");
    char *line = 0;
    size_t cap = 0;
    ssize_t k;
    int cmds = 0;
    while ((k = getline(&line, &cap, in)) > 0) {
        cmds++;
        bytes += k;
        if (!strncmp(line, "XFER2", 5)) { /* handed over to the transfer loop */
            fclose(in);
            lost_ += cap;
            return cmds;
        }
        if (!strncmp(line, "QUIT", 4))
            break;
    }
    free(line);
    fclose(in);
    return cmds;
}
static size_t compose(char *b, int legacy) {
    size_t n = 0;
    int lines = rng(3, 12);
    while (lines--) {
        size_t k = rng(20, 900);
        memset(b + n, 'a' + lines, k);
        n += k;
        b[n++] = '\n';
    }
    size_t k = rng(5000, 22000); /* a manifest */
    memset(b + n, 'm', k);
    n += k;
    b[n++] = '\n';
    n += sprintf(b + n, legacy ? "QUIT\n" : "XFER2 manifest\n");
    return n;
}
int main(void) {
    static char text[64000];
    static char *session[6000];
    t0 = now();
    for (int i = 0; i < 6000; i++) {
        session[i] = malloc(6000);
        memset(session[i], i, 6000);
    }
    while (now() - t0 < RUN_LIMIT) {
        int k = 1 + (int)(swing(now() - t0, 11) * 3);
        while (k--) {
            int late = now() - t0 > 15 && rnd() % 3 == 0;
            serve_client(text, compose(text, !late));
            unsigned s = rnd() % 6000;
            free(session[s]);
            session[s] = malloc(6000);
            memset(session[s], k, 6000);
        }
        truth();
        nap(20);
    }
    return bytes == 1;
}
