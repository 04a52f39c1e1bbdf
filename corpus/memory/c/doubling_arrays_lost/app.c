// A plotter: 300 lines grow at once, their points in arrays that double by realloc. A line that leaves the sheet
// starts anew without freeing its points.
#include "../common.h"

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
    unsigned d = 0;
    ready();
    for (;;) {
        for (int i = 0; i < 300; i++) {
            struct line *l = &open_[i];
            if (l->n >= l->want) {
                if (!l->leaves) {
                    free(drawn[d % 900].pts);
                    drawn[d++ % 900] = *l;
                }
                *l = (struct line){.want = rng(50, 700), .leaves = rnd() % 6 == 0};
            }
            for (int k = 0; k < 14; k++)
                points_push(l, i, k);
        }
        serve_requests(25);
        nap(10);
    }
}
