// A server with many threads. Modes: busy (600 threads that do ordinary work, healthy), idle (3,000 sleeping threads,
// while the first one loses blocks), mapped_stacks (each client gets a thread on a stack that the program mapped, and
// waits for ever).
#include "../common.h"
#include <sys/mman.h>

static void *work_now_and_then(void *none) {
    for (;;) {
        serve_requests(3);
        nap(900);
    }
    return none;
}

static void *wait_for_work(void *none) {
    pause();
    return none;
}

static void *wait_for_client(void *none) {
    char frame[60000];
    memset(frame, 1, sizeof frame);
    use(frame);
    pause();
    return none;
}

NOINLINE static void issue_ticket(void) {
    use(memset(malloc(2000), 1, 2000));
}

NOINLINE static void start_client(void) {
    pthread_attr_t attributes;
    pthread_t t;
    size_t size = 131072;
    pthread_attr_init(&attributes);
    void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_setstack(&attributes, stack, size);
    pthread_create(&t, &attributes, wait_for_client, NULL);
}

static void start_threads(int many, size_t stack, void *(*run)(void *)) {
    pthread_attr_t attributes;
    pthread_t t;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack);
    while (many-- && !pthread_create(&t, &attributes, run, NULL))
        ;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "busy"))
        start_threads(600, 131072, work_now_and_then);
    if (!strcmp(mode, "idle"))
        start_threads(3000, 65536, wait_for_work);
    nap(2000);
    ready();
    for (;;) {
        for (int i = 0; i < 5 && !strcmp(mode, "idle"); i++)
            issue_ticket();
        if (!strcmp(mode, "mapped_stacks"))
            start_client();
        serve_requests(100);
        nap(strcmp(mode, "mapped_stacks") ? 50 : 100);
    }
}
