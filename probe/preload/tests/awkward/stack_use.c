// Prints how many bytes of the caller's stack malloc, realloc and free take at most, on a painted stack.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK = 256 << 10, PAINTED = 64 << 10, PAINT = 0xa5 };

static unsigned char *lowest_of_paint;
static size_t used;

static __attribute__((noinline)) void work(void) {
    for (int round = 0; round < 50; round++) free(realloc(malloc(100), 3000));
}

static void *measure(void *argument) {
    (void)argument;
    work(); // What is done once is not measured.
    unsigned char *here = __builtin_frame_address(0);
    lowest_of_paint = here - PAINTED;
    for (unsigned char *at = lowest_of_paint; at < here - 256; at++) *(volatile unsigned char *)at = PAINT;
    work();
    unsigned char *at = lowest_of_paint;
    while (at < here && *(volatile unsigned char *)at == PAINT) at++;
    used = here - at;
    return NULL;
}

int main(void) {
    void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return 1;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, measure, NULL)) return 2;
    pthread_join(thread, NULL);
    printf("%zu\n", used);
    return 0;
}
