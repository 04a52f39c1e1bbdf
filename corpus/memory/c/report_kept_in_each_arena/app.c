// A report service with 12 worker threads. In turn each builds a large report in its own arena and frees it, but a
// small block allocated late keeps the top of the arena.
#include "../common.h"

static char *last_status[16];
static int turn;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

NOINLINE void build_report(int id) {
    enum { B = 3200 };
    char **rows = malloc(B * sizeof *rows);
    for (int i = 0; i < B; i++) {
        size_t n = rng(800, 6000);
        rows[i] = malloc(n);
        memset(rows[i], id, n);
        if (i % 100 == 0)
            nap(12);
    }
    char *st = malloc(120);
    snprintf(st, 120, "worker %d done", id);
    free(last_status[id]);
    last_status[id] = st;
    nap(300);
    for (int i = 0; i < B; i++)
        free(rows[i]);
    free(rows);
}

static void *worker(void *a) {
    int id = (int)(intptr_t)a;
    last_status[id] = malloc(120);
    for (;;) {
        nap(40);
        pthread_mutex_lock(&m);
        int go = turn == id;
        if (go)
            turn = -1;
        pthread_mutex_unlock(&m);
        if (go)
            build_report(id);
    }
    return 0;
}

int main(void) {
    pthread_t t;
    for (long i = 0; i < 12; i++) {
        pthread_create(&t, 0, worker, (void *)i);
        nap(30);
    }
    enum { P = 800 };
    char *p[P] = {0};
    int next = 0;
    double next_turn = now() + 2;
    ready();
    for (;;) {
        for (int k = 0; k < 3; k++) {
            int i = rnd() % P;
            free(p[i]);
            size_t n = rng(1000, 16000);
            p[i] = malloc(n);
            memset(p[i], 3, n);
        }
        if (now() > next_turn) {
            pthread_mutex_lock(&m);
            turn = next;
            pthread_mutex_unlock(&m);
            next = (next + 1) % 12;
            next_turn += 5;
        }
        nap(10);
    }
}
