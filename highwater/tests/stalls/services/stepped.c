/* Loaded before a program (LD_PRELOAD): its clock of the day is set forward by an hour after STEP_AFTER_MS of its life (2,000
 * unless told), and back again by two after twice that. CLOCK_MONOTONIC and all waits are as ever. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long age_ms(void) {
    static long long born;
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    long long now = t.tv_sec * 1000LL + t.tv_nsec / 1000000;
    if (!born) born = now;
    return (long)(now - born);
}

__attribute__((constructor)) static void begun(void) { age_ms(); }

static long off(void) {
    const char *told = getenv("STEP_AFTER_MS");
    long after = told ? atol(told) : 2000, age = age_ms();
    return age < after ? 0 : age < 2 * after ? 3600 : after ? -3600 : 3600;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    int result = (int)syscall(SYS_clock_gettime, clock, t);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) t->tv_sec += off();
    return result;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
