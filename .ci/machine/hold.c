/* Workers that want a mutex for each request, and an exporter that sleeps with it: stalls must name post_spans. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t spans = PTHREAD_MUTEX_INITIALIZER;

static void wait_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

__attribute__((noinline)) static void post_spans(void) {
    wait_ms(120);
}

static void *exporter(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&spans);
        post_spans();
        pthread_mutex_unlock(&spans);
        wait_ms(200);
    }
    return NULL;
}

__attribute__((noinline)) static void handle_request(void) {
    pthread_mutex_lock(&spans);
    pthread_mutex_unlock(&spans);
}

static void *worker(void *unused) {
    (void)unused;
    for (;;) {
        handle_request();
        wait_ms(5);
    }
    return NULL;
}

int main(int count, char **words) {
    pthread_t thread;
    for (int number = 0; number < 3; number++) {
        pthread_create(&thread, NULL, number == 0 ? exporter : worker, NULL);
    }
    wait_ms(1000L * (count > 1 ? atol(words[1]) : 60));
    return 0;
}
