// Four composers pass replies to one sender through a bounded queue. The sender frees nine of ten; the tenth belongs
// to a client that hung up.
#include "../common.h"

struct reply {
    unsigned n, gone;
    char body[];
};
static struct reply *queue[1024];
static unsigned head, tail;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

NOINLINE struct reply *compose_reply(unsigned seq) {
    unsigned n = rng(600, 4400);
    struct reply *r = malloc(sizeof *r + n);
    r->n = n;
    r->gone = rnd() % 10 == 3;
    memset(r->body, seq, n);
    return r;
}

static void *composer(void *a) {
    for (unsigned seq = 0;; seq++) {
        struct reply *r = compose_reply(seq);
        for (int put = 0; !put;) {
            pthread_mutex_lock(&mu);
            if (head - tail < 1024) {
                queue[head++ % 1024] = r;
                put = 1;
            }
            pthread_mutex_unlock(&mu);
            if (!put)
                nap(2);
        }
        if (seq % 12 == 0) {
            serve_requests(20);
            nap(8);
        }
    }
    return a;
}

int main(void) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], 0, composer, 0);
    ready();
    for (;;) {
        for (int k = 0; k < 60; k++) {
            struct reply *r = 0;
            pthread_mutex_lock(&mu);
            if (head - tail > 500) /* some linger */
                r = queue[tail++ % 1024];
            pthread_mutex_unlock(&mu);
            if (!r)
                break;
            if (!r->gone)
                free(r);
        }
        nap(10);
    }
}
