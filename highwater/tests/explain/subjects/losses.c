// What is lost, kept, mapped or handed on in less obvious ways; the first argument says how. Each runs until it is ended.
//   gcc -g -O1 -fno-inline -pthread losses.c -o losses
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void rest_ms(long ms) { usleep(ms * 1000); }

// Ordinary traffic around the fault.
static void *live[4096];
static unsigned seed = 1;
static unsigned next_random(void) { return seed = (seed * 1664525u + 1013904223u); }
static void churn(int count) {
    for (int i = 0; i < count; i++) {
        unsigned at = (next_random() >> 8) % 4096;
        free(live[at]);
        size_t size = 16 + (next_random() >> 8) % 1500;
        live[at] = malloc(size);
        memset(live[at], 1, size);
    }
}

// ---- lost together: every block but the owner is pointed to, by a block that is lost itself
struct session { char *name; char *body; struct session *next, *back; };
static struct session *last;
__attribute__((noinline)) struct session *open_session(void) {
    struct session *session = calloc(1, sizeof *session);
    session->name = malloc(100);
    session->body = malloc(700);
    memset(session->name, 1, 100);
    memset(session->body, 1, 700);
    return session;
}
static void owner(void) {
    for (;;) { for (int i = 0; i < 10; i++) last = open_session(); churn(200); rest_ms(10); }
}
static void list(void) {
    for (;;) {
        struct session *head = NULL;
        for (int i = 0; i < 20; i++) { struct session *fresh = open_session(); fresh->next = head; head = fresh; }
        last = head;
        churn(200);
        rest_ms(20);
    }
}
static void ring(void) {
    for (;;) {
        for (int i = 0; i < 5; i++) {
            struct session *a = open_session(), *b = open_session();
            a->next = b; b->next = a; a->back = b; b->back = a;
            last = a;
        }
        churn(200);
        rest_ms(10);
    }
}
// ---- kept: the same blocks, all in one list for good
static void registry(void) {
    for (;;) {
        for (int i = 0; i < 10; i++) { struct session *fresh = open_session(); fresh->next = last; last = fresh; }
        churn(200);
        rest_ms(10);
    }
}
// One buffer that grows by a line at a time, reallocated thousands of times.
static char *journal;
static size_t length = 1 << 20;
__attribute__((noinline)) void write_line(void) {
    journal = realloc(journal, length + 400);
    memset(journal + length, 'x', 400);
    length += 400;
}
static void resized(void) {
    journal = calloc(1, length);
    for (;;) { for (int i = 0; i < 10; i++) write_line(); churn(50); rest_ms(5); }
}
// Full after three seconds, then entries of another size take the places of old ones.
static void *slots[20000];
__attribute__((noinline)) void *cache_put(void) {
    size_t size = 500 + (next_random() >> 8) % 600;
    return memset(malloc(size), 5, size);
}
static void level(void) {
    for (size_t count = 0;; count++) {
        free(slots[count % 20000]);
        slots[count % 20000] = cache_put();
        if (count % 70 == 0) rest_ms(10);
    }
}

// ---- a function that ends in a call of malloc is not on the stack any more when that runs
__attribute__((noinline, optimize("optimize-sibling-calls"))) char *make_ticket(void) { return malloc(900); }
__attribute__((noinline)) void sell(void) { last = (struct session *)memset(make_ticket(), 1, 900); }
static void tail(void) {
    for (;;) { for (int i = 0; i < 10; i++) sell(); churn(100); rest_ms(10); }
}

// ---- known to the kernel only: what epoll tells with a descriptor, what a timer's signal brings
__attribute__((noinline)) char *accept_client(void) { return memset(malloc(4000), 1, 4000); }
static void descriptors(int stay) {
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    for (int poll = epoll_create1(0);;) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = accept_client()};
        int client = eventfd(0, 0);
        epoll_ctl(poll, EPOLL_CTL_ADD, client, &event);
        if (!stay) close(client);
        churn(40);
        rest_ms(10);
    }
}
static void epoll(void) { descriptors(1); }
static void closed(void) { descriptors(0); }
static void timers(void) {
    for (;;) {
        struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        struct itimerspec when = {.it_value.tv_sec = 100000};
        timer_t timer;
        how.sigev_value.sival_ptr = accept_client();
        if (timer_create(CLOCK_MONOTONIC, &how, &timer) == 0) timer_settime(timer, 0, &when, NULL);
        churn(40);
        rest_ms(10);
    }
}

// ---- no heap
__attribute__((noinline)) void map_page(void) {
    *(volatile char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
}
static void pages(void) {
    for (;;) { for (int i = 0; i < 10; i++) map_page(); churn(50); rest_ms(20); }
}
__attribute__((noinline)) void take_break(void) { memset(sbrk(65536), 1, 65536); }
static void broken(void) {
    for (;;) { take_break(); churn(20); rest_ms(40); }
}
static volatile char table[1ul << 30];
static void data(void) {
    for (size_t at = 0; at < sizeof table; at += 4096) { table[at] = 1; if (at % 40960 == 0) rest_ms(10); }
    for (;;) rest_ms(100);
}
// ---- another process: the one that was started is gone at once
static void daemonised(void) {
    if (fork()) _exit(0);
    setsid();
    if (fork()) _exit(0);
    owner();
}

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"owner", owner}, {"list", list}, {"ring", ring}, {"registry", registry}, {"resized", resized}, {"level", level},
        {"pages", pages}, {"break", broken}, {"data", data}, {"daemon", daemonised},
        {"tail", tail}, {"epoll", epoll}, {"closed", closed}, {"timers", timers},
    };
    for (size_t i = 0; count > 1 && i < sizeof all / sizeof all[0]; i++)
        if (!strcmp(words[1], all[i].name)) all[i].run();
    fprintf(stderr, "which?\n");
    return 2;
}
