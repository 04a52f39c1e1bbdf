#include <stdlib.h>
#include <string.h>
#include "codec.h"
struct frame {
    char *plane[3];
    int n;
};
__attribute__((noinline)) static char *frame_alloc_plane(int n) {
    char *p = malloc(n);
    memset(p, n, n);
    return p;
}
void *frame_new(int n) {
    struct frame *f = malloc(sizeof *f);
    f->n = n;
    for (int i = 0; i < 3; i++)
        f->plane[i] = frame_alloc_plane(i ? n / 4 : n);
    return f;
}
int frame_sum(void *v) {
    struct frame *f = v;
    return f->plane[0][0] + f->plane[2][1];
}
void frame_free(void *v, int keep_chroma) {
    struct frame *f = v;
    free(f->plane[0]);
    if (!keep_chroma) {
        free(f->plane[1]);
        free(f->plane[2]);
    }
    free(f);
}
