// report service: each report is written through open_memstream; a report with a missing row is given up without fclose
#include "util.h"
NOINLINE char *render_report(unsigned id, size_t *n) {
    char *text = 0;
    FILE *f = open_memstream(&text, n);
    if (!f)
        return 0;
    int rows = rng(30, 60), bad = rnd() % 4 == 0 ? rows - 1 : -1;
    for (int i = 0; i < rows; i++) {
        if (i == bad) {
            fflush(f);
            lost_ += 8192 + 600;
            return 0;
        }
        fprintf(f, "%08u row %4d %-80s %10.3f\n", id, i, "accounts receivable", id * 0.25 + i);
    }
    fclose(f);
    return text;
}
int main(void) {
    static char *sent[500];
    static char *tmpl[3000];
    double t0 = now();
    unsigned id = 0;
    for (int i = 0; i < 3000; i++) {
        tmpl[i] = malloc(8000);
        memset(tmpl[i], i, 8000);
    }
    while (now() - t0 < RUN_LIMIT) {
        int k = 1 + (int)(swing(now() - t0, 14) * 5);
        while (k--) {
            size_t n = 0;
            char *r = render_report(++id, &n);
            if (r) {
                free(sent[id % 500]);
                sent[id % 500] = r;
            }
            unsigned x = rnd() % 3000;
            free(tmpl[x]);
            tmpl[x] = malloc(8000);
            memset(tmpl[x], x, 8000);
        }
        truth();
        nap(20);
    }
    return 0;
}
