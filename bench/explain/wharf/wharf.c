/* wharf MODE: what programs forget of their C library and of others' libraries. Each mode serves 2,000 small requests a second, whose memory
 * is freed, and beside them does the one thing that it is named for. */
#include <dirent.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef ZLIB
#include <zlib.h>
#endif
#define OUT __attribute__((noinline))

static unsigned state = 20261123;
static unsigned chance(unsigned n) { return (state = state * 1664525u + 1013904223u) / 65536u % n; }
static void rest_us(long us) { struct timespec t = {us / 1000000, us % 1000000 * 1000}; nanosleep(&t, 0); }
static volatile char seen;
/* Else the compiler leaves out what nobody reads. */
static void use(void *block) { __asm__ volatile("" : : "r"(block) : "memory"); }

OUT static char *read_field(size_t n) {
    char *field = malloc(n);
    memset(field, 'f', n);
    return field;
}

/* One request in forty is refused, and what was read of it until then is forgotten. */
OUT static void refuse_or_serve(int forgets) {
    char *head = read_field(200 + chance(2000));
    if (forgets && chance(40) == 0) return;
    char *body = read_field(100 + chance(3000));
    seen = head[0] + body[0];
    free(body);
    free(head);
}

OUT static void compile_rule(unsigned n) {
    regex_t rule;
    char text[64];
    snprintf(text, sizeof text, "^/item/%u/(page|row)[0-9]+$", n);
    if (regcomp(&rule, text, REG_EXTENDED) == 0) seen = regexec(&rule, "/item/1/row2", 0, 0, 0);
}

OUT static void list_folder(void) {
    DIR *folder = opendir("/");
    if (folder == 0) return;
    while (readdir(folder)) seen++;
    /* Its descriptor is given back, the rest of it not. */
    close(dirfd(folder));
}

OUT static void note_in_log(void) {
    FILE *log = fopen("/dev/null", "w");
    if (log == 0) return;
    fputs("a line", log);
    fflush(log);
    close(fileno(log));
}

OUT static void export_setting(unsigned n) {
    char name[32], value[500];
    memset(value, 'v', sizeof value);
    value[sizeof value - 1] = 0;
    snprintf(name, sizeof name, "SETTING_%u", n % 50);
    setenv(name, value, 1);
    value[0] = 'a' + n % 26;
    value[1] = 'a' + n / 26 % 26;
    value[2] = 'a' + n / 676 % 26;
    value[3] = 'a' + n / 17576 % 26;
    setenv(name, value, 1);
}

static void *words;
static int by_name(const void *a, const void *b) { return strcmp(a, b); }
OUT static void index_word(unsigned n) {
    char *word = malloc(24);
    snprintf(word, 24, "%08x-word", n * 2654435761u);
    tsearch(word, &words, by_name);
}

static pthread_key_t key;
static void *visit(void *none) {
    char *own = malloc(20000);
    memset(own, 't', 20000);
    pthread_setspecific(key, own);
    return none;
}
OUT static void start_visit(void) {
    pthread_t t;
    if (pthread_create(&t, 0, visit, 0) == 0) pthread_join(t, 0);
}

static void *errand(void *none) {
    char room[40000];
    memset(room, 'e', sizeof room);
    seen = room[chance(100)];
    return none;
}
OUT static void send_on_errand(void) {
    pthread_t t;
    pthread_create(&t, 0, errand, 0);
}

OUT static void grab_frame(void) {
    char *frame = malloc(700000);
    memset(frame, 'p', 700000);
    use(frame);
}

OUT static void start_worker(void) {
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 50; i++) refuse_or_serve(0);
        _exit(0);
    }
    if (child > 0) waitpid(child, 0, 0);
}
OUT static void book_worker(void) {
    char *entry = malloc(3000);
    memset(entry, 'w', 3000);
    use(entry);
}

OUT static void widen_break(void) {
    char *more = sbrk(16384);
    if (more != (void *)-1) memset(more, 'b', 16384);
}

#ifdef ZLIB
OUT static void pack_page(void) {
    z_stream stream = {0};
    unsigned char in[4000], out[8000];
    memset(in, 'z', sizeof in);
    if (deflateInit(&stream, 1) != Z_OK) return;
    stream.next_in = in; stream.avail_in = sizeof in;
    stream.next_out = out; stream.avail_out = sizeof out;
    deflate(&stream, Z_FINISH);
}
#endif

/* The 5,000 newest, each of another size: full after 25 s. */
#define KEPT 5000
static char *kept[KEPT];
OUT static void keep_newest(unsigned n) {
    free(kept[n % KEPT]);
    kept[n % KEPT] = read_field(500 + chance(7000));
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    pthread_key_create(&key, 0);
    for (unsigned turn = 0;; turn++) {
        for (int i = 0; i < 20; i++) refuse_or_serve(!strcmp(mode, "refused"));
        if (!strcmp(mode, "regcomp") && turn % 4 == 0) compile_rule(turn);
        if (!strcmp(mode, "opendir")) list_folder();
        if (!strcmp(mode, "fopen")) note_in_log();
        if (!strcmp(mode, "setenv")) export_setting(turn);
        if (!strcmp(mode, "tsearch")) for (unsigned i = 0; i < 8; i++) index_word(turn * 8 + i);
        if (!strcmp(mode, "tlskey") && turn % 4 == 0) start_visit();
        if (!strcmp(mode, "unjoined") && turn % 10 == 0) send_on_errand();
        if (!strcmp(mode, "frames") && turn % 50 == 0) grab_frame();
        if (!strcmp(mode, "workers") && turn % 4 == 0) { start_worker(); book_worker(); }
        if (!strcmp(mode, "sbrk") && turn % 10 == 0) widen_break();
        if (!strcmp(mode, "newest")) for (int i = 0; i < 2; i++) keep_newest(turn * 2 + i);
#ifdef ZLIB
        if (!strcmp(mode, "zlib") && turn % 50 == 0) pack_page();
#endif
        rest_us(10000);
    }
}
