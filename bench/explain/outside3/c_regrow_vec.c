// plotter: some hundreds of polylines grow at once, their points in arrays that double by realloc; a line that leaves the sheet is
// started anew without giving its points back
#include "work.h"
struct point {
    float x, y;
};
struct line {
    struct point *pts;
    unsigned n, cap, want;
    int leaves;
};
static struct line open_[300], drawn[900];
NOINLINE void points_push(struct line *l, float x, float y) {
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 8;
        l->pts = realloc(l->pts, l->cap * sizeof *l->pts);
    }
    l->pts[l->n++] = (struct point){x, y};
}
int main(void) {
    double t0 = now();
    unsigned d = 0;
    while (now() - t0 < RUN_LIMIT) {
        for (int i = 0; i < 300; i++) {
            struct line *l = &open_[i];
            if (l->n >= l->want) {
                if (l->leaves) {
                    lost_ += l->cap * sizeof *l->pts;
                } else {
                    free(drawn[d % 900].pts);
                    drawn[d++ % 900] = *l;
                }
                *l = (struct line){.want = rng(50, 700), .leaves = rnd() % 6 == 0};
            }
            for (int k = 0; k < 14; k++)
                points_push(l, i, k);
        }
        bystanders(25);
        truth();
        nap(10);
    }
    return 0;
}
