// Leaks and collections in C as services have them, beside much traffic. First argument: which; a second one: mended.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define CALLED __attribute__((noinline))
static int mended;
static void pause_us(long us) { usleep(us); }
static __thread unsigned long seed = 2463534242ul;
static unsigned pick(void) { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return seed >> 13; }

// Traffic: a session table of 5,000 slots, each with a name and a body, replaced at random.
struct session { char *name, *body; };
static __thread struct session table[5000];
CALLED void *xmalloc(size_t size) { void *p = malloc(size); if (!p) abort(); return p; }
CALLED char *xstrdup(const char *text) { size_t n = strlen(text) + 1; return memcpy(xmalloc(n), text, n); }
CALLED void open_session(struct session *s) {
    char name[40];
    size_t size = 100 + pick() % 2000;
    snprintf(name, sizeof name, "session-%u", pick());
    s->name = xstrdup(name);
    s->body = memset(xmalloc(size), 's', size);
}
CALLED void close_session(struct session *s) { free(s->name); free(s->body); s->name = s->body = NULL; }
static void serve(int requests) { while (requests--) { struct session *s = &table[pick() % 5000]; close_session(s); open_session(s); } }

// cookies: one request in ten has a cookie that is refused, and on that way it is not freed.
CALLED char *parse_cookie(const char *header) { return xstrdup(header + 8); }
CALLED int check_request(int n) {
    char *cookie = parse_cookie("Cookie: id=0123456789abcdef0123456789abcdef0123456789abcdef; theme=dark; lang=en-GB; consent=all");
    if (n % 10 == 3 && !mended) return 403;
    free(cookie);
    return 200;
}
static void cookies(void) { for (int n = 0;; n++) { check_request(n); serve(20); if (n % 10 == 0) pause_us(2000); } }

// events: sixteen bytes each, at full speed, one in two hundred is lost.
struct event { long kind, stamp; };
static struct event *volatile latest;
CALLED void note_event(long n) { struct event *e = malloc(sizeof *e); e->kind = n; latest = e; if (mended || n % 200) free(e); }
static void events(void) { for (long n = 0;; n++) { note_event(n); if (n % 16 == 0) serve(1); } }

// startup: 30 MB are lost once, at the start.
CALLED void load_config(void) { for (int i = 0; i < 30000; i++) latest = memset(malloc(1000), 1, 1000); }
static void startup(void) { load_config(); for (;;) { serve(200); pause_us(5000); } }

// pool: eight workers take tasks and free them; one result in twenty is lost.
struct task { struct task *next; int id; char data[300]; };
static struct task *waiting; static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
CALLED char *make_result(struct task *t) { char *r = malloc(700); memset(r, t->id, 700); return r; }
CALLED void run_task(struct task *t) { char *r = make_result(t); serve(3); if (t->id % 20 || mended) free(r); }
static void *worker(void *unused) {
    for (;;) {
        pthread_mutex_lock(&gate);
        while (!waiting) pthread_cond_wait(&bell, &gate);
        struct task *t = waiting; waiting = t->next;
        pthread_mutex_unlock(&gate);
        run_task(t);
        free(t);
    }
    return unused;
}
CALLED void submit(int id) {
    struct task *t = malloc(sizeof *t); t->id = id; memset(t->data, id, sizeof t->data);
    pthread_mutex_lock(&gate); t->next = waiting; waiting = t; pthread_cond_signal(&bell); pthread_mutex_unlock(&gate);
}
static void pool(void) {
    pthread_t t;
    for (int i = 0; i < 8; i++) pthread_create(&t, NULL, worker, NULL);
    for (int n = 0;; n++) { submit(n); if (n % 25 == 0) pause_us(4000); }
}

// paths: what realpath makes is not freed.
static volatile size_t length;
CALLED void resolve_path(const char *name) { char *full = realpath(name, NULL); if (full) length += strlen(full); if (mended) free(full); }
static void paths(void) { for (int n = 0;; n++) { resolve_path("/usr/bin/env"); serve(10); if (n % 5 == 0) pause_us(3000); } }

// handlers: a list of handlers only grows; nothing of it is ever removed.
struct handler { struct handler *next; void (*call)(void); char name[120]; };
static struct handler *handlers;
CALLED void add_handler(int n) { struct handler *h = malloc(sizeof *h); snprintf(h->name, sizeof h->name, "handler-%d", n); h->next = handlers; handlers = h; }
static void run_handlers(void) { for (int n = 0;; n++) { add_handler(n); serve(20); if (n % 4 == 0) pause_us(4000); } }

// pages: deflateEnd is forgotten.
CALLED void compress_page(void) {
    unsigned char in[500], out[800];
    z_stream z = {0};
    memset(in, 'p', sizeof in);
    deflateInit(&z, 1);
    z.next_in = in; z.avail_in = sizeof in; z.next_out = out; z.avail_out = sizeof out;
    deflate(&z, Z_FINISH);
    if (mended) deflateEnd(&z);
}
static void pages(void) { for (;;) { compress_page(); serve(50); pause_us(100000); } }

// names: freeaddrinfo is forgotten.
CALLED void look_up(const char *host) { struct addrinfo *all, hints = {.ai_flags = AI_NUMERICHOST}; if (!getaddrinfo(host, "80", &hints, &all) && mended) freeaddrinfo(all); }
static void names(void) { for (int n = 0;; n++) { look_up("127.0.0.1"); serve(10); if (n % 5 == 0) pause_us(3000); } }

// clients: each connection's state is known to the kernel only (epoll). "lost": the descriptor is closed, the state not freed.
struct client { int fd; char inbox[6000]; };
CALLED struct client *accept_client(int fd) { struct client *c = calloc(1, sizeof *c); c->fd = fd; memset(c->inbox, 'c', sizeof c->inbox); return c; }
static void clients(int lost) {
    struct rlimit most; getrlimit(RLIMIT_NOFILE, &most); most.rlim_cur = most.rlim_max; setrlimit(RLIMIT_NOFILE, &most);
    int poll = epoll_create1(0), ends[2];
    for (int n = 0;; n++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) { pause_us(100000); continue; }
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = accept_client(ends[0])};
        epoll_ctl(poll, EPOLL_CTL_ADD, ends[0], &event);
        if (lost) { write(ends[1], "bye", 3); epoll_wait(poll, &event, 1, 0); struct client *c = event.data.ptr; close(c->fd); close(ends[1]); if (mended) free(c); }
        serve(20);
        pause_us(15000);
    }
}
static void clients_stay(void) { clients(0); }
static void clients_lost(void) { clients(1); }

// timers: each timer's state is known to the kernel only (sigev_value).
CALLED void arm_timer(int n) {
    char *state = malloc(5000);
    memset(state, n, 5000);
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_ptr = state};
    struct itimerspec when = {{0, 0}, {100000, 0}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &how, &timer) == 0) timer_settime(timer, 0, &when, NULL);
}
static void timers(void) { for (int n = 0;; n++) { arm_timer(n); serve(20); pause_us(15000); } }

// users: the same wrapper and the same size as the traffic's.
CALLED void drop_user(int n) { char *user = xmalloc(1024); memset(user, n, 1024); latest = (void *)user; if (mended) free(user); }
CALLED void greet_user(int n) { char *user = xmalloc(1024); memset(user, n, 1024); latest = (void *)user; free(user); }
static void users(void) { for (int n = 0;; n++) { greet_user(n); if (n % 16 == 0) drop_user(n); serve(3); if (n % 20 == 0) pause_us(3000); } }

// both: two leaks, one four times the other.
CALLED void leak_large(int n) { latest = memset(malloc(4000), n, 4000); }
CALLED void leak_small(int n) { latest = memset(malloc(1000), n, 1000); }
static void both(void) { for (int n = 0;; n++) { leak_large(n); leak_small(n); serve(50); pause_us(12000); } }

// slow: 2 KB a second.
CALLED void keep_line(int n) { char *line; if (asprintf(&line, "line %0180d", n) > 0) latest = (void *)line; }
static void slow(void) { for (int n = 0;; n++) { keep_line(n); serve(100); pause_us(90000); } }

// worker: one process serves, its child loses.
CALLED void child_note(const char *text) { char *copy = strndup(text, 900); latest = (void *)copy; if (mended) free(copy); }
static void fork_worker(void) {
    char text[1000]; memset(text, 't', sizeof text - 1); text[999] = 0;
    if (fork() == 0) for (int n = 0;; n++) { child_note(text); serve(10); if (n % 4 == 0) pause_us(5000); }
    for (;;) { serve(50); pause_us(20000); }
}

// batch: ends by itself after 25 s.
CALLED void add_row(int n) { latest = memset(malloc(2000), n, 2000); }
static void batch(void) { for (int n = 0; n < 5000; n++) { add_row(n); serve(10); pause_us(5000); } }

// fast: 24 MB a second until 900 MB are lost, then nothing more: a minute is over before.
CALLED void decode_frame(int n) { latest = memset(malloc(60000), n, 60000); }
static void fast(void) { for (int n = 0; n < 15000; n++) { decode_frame(n); if (n % 4 == 0) { serve(20); pause_us(10000); } } for (;;) { serve(50); pause_us(20000); } }

// cache: a hash with no bound.        lru: the same, 20,000 at most, filled after some ten seconds.
struct entry { struct entry *next, *older, *newer; unsigned key; char *value; };
static struct entry *slots[65536], *oldest, *newest; static int entries;
CALLED struct entry *cache_insert(unsigned key) {
    struct entry *e = malloc(sizeof *e); size_t size = 200 + pick() % 800;
    e->key = key; e->value = memset(malloc(size), 'v', size);
    e->next = slots[key % 65536]; slots[key % 65536] = e;
    e->older = newest; e->newer = NULL; if (newest) newest->newer = e; else oldest = e; newest = e; entries++;
    return e;
}
CALLED void cache_evict(void) {
    struct entry *e = oldest, **at = &slots[e->key % 65536];
    while (*at != e) at = &(*at)->next;
    *at = e->next; oldest = e->newer; oldest->older = NULL; entries--;
    free(e->value); free(e);
}
static void fill(int most) { for (unsigned n = 0;; n++) { cache_insert(n * 2654435761u); if (entries > most) cache_evict(); if (n % 20 == 0) { serve(20); pause_us(6000); } } }
static void cache(void) { fill(1 << 30); }
static void lru(void) { fill(20000); }

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"cookies", cookies}, {"events", events}, {"startup", startup}, {"pool", pool}, {"paths", paths}, {"handlers", run_handlers},
        {"pages", pages}, {"names", names}, {"clients", clients_stay}, {"clients-lost", clients_lost}, {"timers", timers}, {"users", users},
        {"both", both}, {"slow", slow}, {"worker", fork_worker}, {"batch", batch}, {"fast", fast}, {"cache", cache}, {"lru", lru},
    };
    mended = count > 2;
    for (size_t i = 0; count > 1 && i < sizeof all / sizeof all[0]; i++) if (!strcmp(words[1], all[i].name)) all[i].run();
    return 0;
}
