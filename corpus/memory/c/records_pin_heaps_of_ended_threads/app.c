// An importer with a new worker thread for each file. The thread reads records of that file's size, passes 1 of 20 to
// a table with a fixed number of bytes (the oldest go) and frees the others.
#include "../common.h"

struct rec {
    size_t n;
    char data[];
};
static struct rec *table_[400000];
static unsigned head, tail;
static long bytes, budget = 24l << 20;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

NOINLINE struct rec *read_record(size_t n) {
    struct rec *r = malloc(sizeof *r + n);
    r->n = sizeof *r + n;
    memset(r->data, 1, n);
    return r;
}

static void pass_to_table(struct rec *r) {
    pthread_mutex_lock(&mu);
    table_[head++ % 400000] = r;
    bytes += r->n;
    while (bytes > budget) {
        struct rec *o = table_[tail++ % 400000];
        bytes -= o->n;
        free(o);
    }
    pthread_mutex_unlock(&mu);
}

static void *worker(void *a) {
    size_t n = (size_t)(uintptr_t)a, k = 8000000 / n, i;
    struct rec **r = calloc(k, sizeof *r);
    for (i = 0; i < k; i++) {
        r[i] = read_record(n);
        if (i % (k / 40) == 0)
            nap(40);
    }
    for (i = 0; i < k; i++)
        if (i % 20 == 7)
            pass_to_table(r[i]);
        else
            free(r[i]);
    free(r);
    return 0;
}

int main(void) {
    unsigned file = 0;
    for (int i = 0; i < 60000; i++)
        pass_to_table(read_record(380));
    ready();
    for (;;) {
        static const int size[] = {560,  150, 820, 240,  1200, 460, 100, 1700, 700, 310,
                                   1000, 190, 1480, 620, 2100, 125, 900, 2600, 270, 3300};
        pthread_t t;
        pthread_create(&t, 0, worker, (void *)(uintptr_t)size[file++ % 20]);
        pthread_join(t, 0);
        for (int i = 0; i < 7; i++) {
            nap(200);
        }
    }
}
