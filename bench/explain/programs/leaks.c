// Leaks in C at many rates, beside many kinds of traffic; the first argument says which.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAR __attribute__((noinline))
static void rest_ms(long ms) { usleep(ms * 1000); }
static void *volatile sink;

// A queue of requests, first in first out: traffic with an order, unlike random replacement.
struct request { struct request *next; size_t size; char body[]; };
static __thread struct request *head, *tail;
static __thread int queued;
static __thread unsigned draw = 7;
static unsigned drawn(void) { return draw = draw * 1103515245u + 12345u, draw >> 9; }
static void serve(int count) {
    while (count--) {
        size_t size = 40 + drawn() % 3000;
        struct request *fresh = malloc(sizeof *fresh + size);
        fresh->next = NULL;
        fresh->size = size;
        memset(fresh->body, count, size);
        if (tail) tail->next = fresh; else head = fresh;
        tail = fresh;
        if (++queued > 1500) { struct request *old = head; head = old->next; free(old); queued--; }
    }
}

// 5 KB/s: one header in a while is copied and forgotten.
FAR void remember_header(const char *text) { sink = strdup(text); }
static void drip(void) {
    char header[200];
    memset(header, 'h', sizeof header - 1);
    header[199] = 0;
    for (;;) { serve(300); for (int i = 0; i < 5; i++) remember_header(header); rest_ms(200); }
}
// 5 MB/s over eight threads, by pages.
FAR void stage_buffer(void) {
    void *buffer;
    if (posix_memalign(&buffer, 4096, 12000)) abort();
    memset(buffer, 1, 12000);
    sink = buffer;
}
static void *pour_thread(void *unused) { for (;;) { serve(50); stage_buffer(); rest_ms(19); } return unused; }
static void pour(void) {
    pthread_t thread;
    for (int i = 0; i < 8; i++) pthread_create(&thread, NULL, pour_thread, NULL);
    pause();
}
// 3 MB at once, then nothing for seven seconds.
FAR void load_batch(void) { for (int i = 0; i < 6000; i++) { char *row = malloc(500); memset(row, 2, 500); sink = row; } }
static void bursts(void) { for (;;) { load_batch(); for (int i = 0; i < 70; i++) { serve(100); rest_ms(100); } } }
// 60 KB/s beside 700 MB that stay.
FAR void log_line(int number) {
    char *line;
    if (asprintf(&line, "request %d took %d ms and answered with %0300d", number, number % 17, number) < 0) abort();
    sink = line;
}
static void large(void) {
    static char *shards[7000];
    for (int i = 0; i < 7000; i++) { shards[i] = malloc(100000); memset(shards[i], i, 100000); }
    for (int number = 0;; number++) { log_line(number); if (number % 10 == 0) { serve(40); rest_ms(54); } }
}
// 20 KB/s beside some 100 MB/s of traffic in six threads.
FAR void parse_row(void) { char *row = calloc(1, 250); row[0] = 1; sink = row; }
static void *storm_thread(void *unused) {
    for (;;) { for (int i = 0; i < 4; i++) { serve(300); if (i == 0) parse_row(); } rest_ms(60); }
    return unused;
}
static void storm(void) {
    pthread_t thread;
    for (int i = 0; i < 6; i++) pthread_create(&thread, NULL, storm_thread, NULL);
    pause();
}
// A reply is built by realloc and then dropped.
FAR void grow_reply(void) {
    char *reply = NULL;
    for (size_t size = 64; size <= 8192; size *= 2) { reply = realloc(reply, size); memset(reply, 1, size); }
    sink = reply;
}
static void replies(void) { for (;;) { serve(200); grow_reply(); rest_ms(25); } }
// Through a chain of the program's own wrappers.
FAR static void *xmalloc(size_t size) { void *block = malloc(size); if (!block) abort(); return block; }
FAR static void *xcalloc(size_t count, size_t size) { return memset(xmalloc(count * size), 0, count * size); }
FAR static char *xstrdup(const char *text) { return strcpy(xmalloc(strlen(text) + 1), text); }
FAR void track_user(void) { char *user = xcalloc(3, 300); sink = user; sink = xstrdup("a user with a name of some length"); }
static void wrapped(void) { for (;;) { serve(200); for (int i = 0; i < 8; i++) track_user(); rest_ms(40); } }
// A pool of the program's own: chunks of 64 KiB, objects of 256 bytes; objects are not given back.
struct pool { char *at; size_t left; };
static struct pool pool;
FAR void *pool_take(size_t size) {
    if (pool.left < size) { pool.at = malloc(65536); pool.left = 65536; }
    void *object = pool.at;
    pool.at += size;
    pool.left -= size;
    return object;
}
FAR void accept_conn(void) { memset(pool_take(256), 4, 256); __asm__ volatile("" ::: "memory"); }
static void pooled(void) { for (;;) { serve(100); for (int i = 0; i < 30; i++) accept_conn(); rest_ms(30); } }
// Lost inside the C library's own calls.
FAR void render_page(void) {
    char *text; size_t size;
    FILE *page = open_memstream(&text, &size);
    for (int i = 0; i < 40; i++) fprintf(page, "<p>line %d of the page</p>\n", i);
    fclose(page);
    sink = text;
}
static void pages(void) { for (;;) { serve(100); render_page(); rest_ms(10); } }
FAR void read_row(FILE *file) {
    char *line = NULL; size_t room = 0;
    if (getline(&line, &room, file) < 0) rewind(file);
    sink = line;
}
static void rows(void) {
    FILE *file = tmpfile();
    for (int i = 0; i < 1000; i++) fprintf(file, "%0400d\n", i);
    rewind(file);
    for (;;) { serve(100); for (int i = 0; i < 5; i++) read_row(file); rest_ms(20); }
}
// Lost with the thread that owned it: every job has a thread of its own, joined, whose buffer nobody frees.
static __thread char *volatile own;
FAR void *run_job(void *unused) { own = malloc(9000); memset((void *)own, 1, 9000); serve(5); while (head) { struct request *old = head; head = old->next; free(old); } return unused; }
static void jobs(void) {
    for (;;) { pthread_t thread; pthread_create(&thread, NULL, run_job, NULL); pthread_join(thread, NULL); serve(20); rest_ms(30); }
}
// Four workers are forked; the third one leaks. The parent starts dead ones again.
FAR void handle_job(void) { char *job = malloc(1800); memset(job, 1, 1800); sink = job; }
static void workers(void) {
    for (int i = 0; i < 4; i++)
        if (fork() == 0) for (;;) { serve(150); if (i == 2) for (int k = 0; k < 5; k++) handle_job(); rest_ms(50); }
    for (;;) { wait(NULL); rest_ms(1000); }
}
// A tree whose root is replaced: all below it is lost together.
struct leaf { struct leaf *left, *right; char text[48]; };
FAR struct leaf *plant(int depth) {
    struct leaf *leaf = calloc(1, sizeof *leaf);
    if (depth) { leaf->left = plant(depth - 1); leaf->right = plant(depth - 1); }
    return leaf;
}
static struct leaf *volatile tree;
static void trees(void) { for (;;) { tree = plant(6); serve(100); rest_ms(60); } }

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"drip", drip}, {"pour", pour}, {"bursts", bursts}, {"large", large}, {"storm", storm}, {"replies", replies},
        {"wrapped", wrapped}, {"pooled", pooled}, {"pages", pages}, {"rows", rows}, {"jobs", jobs},
        {"workers", workers}, {"trees", trees},
    };
    for (size_t i = 0; count > 1 && i < sizeof all / sizeof all[0]; i++) if (!strcmp(words[1], all[i].name)) all[i].run();
    return 2;
}
