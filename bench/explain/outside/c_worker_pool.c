// 4 workers + collector; error reports are dropped unless the job asked for notification
#include "util.h"
#include <pthread.h>
struct job {
    struct job *next;
    char *input;
    size_t n;
    char *result;
    char *report;
    int notify;
};
struct q {
    struct job *h, *t;
    pthread_mutex_t m;
    pthread_cond_t c;
} in = {0, 0, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER},
  outq = {0, 0, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};
static double t0;
static void put(struct q *q, struct job *j) {
    pthread_mutex_lock(&q->m);
    j->next = 0;
    if (q->t)
        q->t->next = j;
    else
        q->h = j;
    q->t = j;
    pthread_cond_signal(&q->c);
    pthread_mutex_unlock(&q->m);
}
static struct job *get(struct q *q) {
    pthread_mutex_lock(&q->m);
    while (!q->h)
        pthread_cond_wait(&q->c, &q->m);
    struct job *j = q->h;
    q->h = j->next;
    if (!q->h)
        q->t = 0;
    pthread_mutex_unlock(&q->m);
    return j;
}
NOINLINE char *format_error_report(struct job *j) {
    char *r = malloc(6144);
    int n = snprintf(r, 6144, "job failed at %zu\n", j->n);
    memset(r + n, '.', 6143 - n);
    r[6143] = 0;
    return r;
}
NOINLINE char *transform(struct job *j) {
    size_t m = j->n + j->n / 2;
    char *o = malloc(m);
    for (size_t i = 0; i < m; i += 16)
        o[i] = j->input[(i * 2 / 3) % j->n] ^ 0x5a;
    return o;
}
static void *worker(void *a) {
    (void)a;
    for (;;) {
        struct job *j = get(&in);
        j->result = transform(j);
        if (rnd() % 6 == 0)
            j->report = format_error_report(j);
        put(&outq, j);
    }
    return 0;
}
static struct job *hold[1200];
static void *collector(void *a) {
    (void)a;
    unsigned i = 0;
    for (;;) {
        struct job *j = get(&outq);
        struct job *o = hold[i];
        hold[i] = j;
        i = (i + 1) % 1200;
        if (o) {
            free(o->input);
            free(o->result);
            if (o->notify)
                free(o->report);
            free(o);
        }
    }
    return 0;
}
int main(void) {
    t0 = now();
    pthread_t t;
    for (int i = 0; i < 4; i++)
        pthread_create(&t, 0, worker, 0);
    pthread_create(&t, 0, collector, 0);
    while (now() - t0 < RUN_LIMIT) {
        for (int k = 0; k < 3; k++) {
            struct job *j = calloc(1, sizeof *j);
            j->n = rng(4000, 24000);
            j->input = malloc(j->n);
            memset(j->input, rnd(), j->n);
            j->notify = rnd() % 3 == 0;
            put(&in, j);
        }
        nap(15);
    }
    return 0;
}
