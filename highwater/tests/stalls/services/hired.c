/* A thread for each request, one every 1.5 ms, and none that is there for the next. A thread of the background sorts under their
 * mutex for 45 ms every 0.7 s; "fixed": before it takes it. */
#include "truth.h"

static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;
static int fixed;

__attribute__((noinline)) static void sort_all(void) {
    if (!fixed) pthread_mutex_lock(&list);
    work_us(45000);
    if (fixed) pthread_mutex_lock(&list);
    sink++;
    pthread_mutex_unlock(&list);
}

static void *sorter(void *none) {
    for (;; pause_us(700000)) sort_all();
    return none;
}

static void *request(void *number) {
    uint64_t start = now_ns();
    work_us(150);
    pthread_mutex_lock(&list);
    sink++;
    pthread_mutex_unlock(&list);
    told((int)(intptr_t)number, start, 5000000);
    return NULL;
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    fixed = flagged(argc, argv, "fixed");
    pthread_t t;
    pthread_attr_t alone;
    pthread_create(&t, NULL, sorter, NULL);
    pthread_attr_init(&alone);
    pthread_attr_setdetachstate(&alone, PTHREAD_CREATE_DETACHED);
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
    for (intptr_t number = 1; now_ns() < end; number++, pause_us(1500))
        if (pthread_create(&t, &alone, request, (void *)number)) return 4;
    return 0;
}
