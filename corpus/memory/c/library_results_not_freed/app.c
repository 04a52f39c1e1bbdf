// A service that serves 2,000 requests a second and beside them does not free what one function of the C library (or
// of zlib) gave it. The mode is the function's name.
#include "../common.h"
#include <dirent.h>
#include <netdb.h>
#include <regex.h>
#include <search.h>
#ifdef ZLIB
#include <zlib.h>
#endif

static volatile size_t seen;

NOINLINE static void remember_user(unsigned n) {
    char name[120];
    snprintf(name, sizeof name, "user-%08u-of-department-%0*u", n, 60, n);
    use(strdup(name));
}

NOINLINE static void next_record(FILE *file) {
    char *line = NULL;
    size_t room = 0;
    if (getline(&line, &room, file) < 0)
        rewind(file);
    use(line);
}

NOINLINE static void format_series(unsigned n) {
    char *key;
    if (asprintf(&key, "series/%u/%0*u", n, 90, n) > 0)
        use(key);
}

NOINLINE static void render_report(int rows) { // gives up at a missing row, without fclose
    char *text = NULL;
    size_t n;
    FILE *report = open_memstream(&text, &n);
    for (int i = 0; i < rows; i++)
        fprintf(report, "row %4d %-80s %10.3f\n", i, "accounts receivable", 0.25 * i);
    fflush(report);
    use(text);
}

NOINLINE static void compile_rule(unsigned n) {
    regex_t rule;
    char text[64];
    snprintf(text, sizeof text, "^/item/%u/(page|row)[0-9]+$", n);
    if (regcomp(&rule, text, REG_EXTENDED) == 0)
        seen = regexec(&rule, "/item/1/row2", 0, 0, 0);
}

NOINLINE static void list_folder(void) { // closes the descriptor, but not the stream
    DIR *folder = opendir("/");
    while (folder && readdir(folder))
        seen++;
    if (folder)
        close(dirfd(folder));
}

NOINLINE static void note_in_log(void) { // closes the descriptor, but not the stream
    FILE *log = fopen("/dev/null", "w");
    if (!log)
        return;
    fputs("a line", log);
    fflush(log);
    close(fileno(log));
}

NOINLINE static void resolve_peer(unsigned n) {
    char host[32];
    snprintf(host, sizeof host, "10.1.%u.%u", n / 250 % 250, n % 250);
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found;
    seen = getaddrinfo(host, "80", &hints, &found);
}

NOINLINE static void export_setting(unsigned n) {
    char name[32], value[500];
    memset(value, 'v', sizeof value);
    value[sizeof value - 1] = 0;
    snprintf(name, sizeof name, "SETTING_%u", n % 50);
    setenv(name, value, 1);
    for (unsigned i = 0, rest = n; i < 4; i++, rest /= 26)
        value[i] = 'a' + rest % 26;
    setenv(name, value, 1);
}

NOINLINE static void list_programs(void) { // frees the list, but not the names in it
    struct dirent **names;
    if (scandir("/usr/bin", &names, NULL, NULL) >= 0)
        free(names);
}

static void *words;

static int compare_words(const void *a, const void *b) {
    return strcmp(a, b);
}

NOINLINE static void index_word(unsigned n) {
    char *word = malloc(24);
    snprintf(word, 24, "%08x-word", n * 2654435761u);
    tsearch(word, &words, compare_words);
}

NOINLINE static void compress_page(void) {
#ifdef ZLIB
    z_stream stream = {0};
    unsigned char in[4000], out[8000];
    memset(in, 'z', sizeof in);
    if (deflateInit(&stream, 1) != Z_OK)
        return;
    stream.next_in = in, stream.avail_in = sizeof in;
    stream.next_out = out, stream.avail_out = sizeof out;
    deflate(&stream, Z_FINISH);
#endif
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
#define IS(name) (!strcmp(mode, name))
    FILE *file = fopen("/proc/self/maps", "r");
    ready();
    for (unsigned turn = 0;; turn++) {
        serve_requests(20);
        if (IS("strdup"))
            for (int i = 0; i < 3; i++)
                remember_user(turn * 3 + i);
        if (IS("getline"))
            for (int i = 0; i < 4; i++)
                next_record(file);
        if (IS("asprintf"))
            for (int i = 0; i < 3; i++)
                format_series(turn * 3 + i);
        if (IS("open_memstream") && turn % 4 == 0)
            render_report(rng(30, 60));
        if (IS("regcomp") && turn % 4 == 0)
            compile_rule(turn);
        if (IS("opendir"))
            list_folder();
        if (IS("fopen"))
            note_in_log();
        if (IS("getaddrinfo"))
            for (int i = 0; i < 10; i++)
                resolve_peer(turn * 10 + i);
        if (IS("setenv"))
            export_setting(turn);
        if (IS("scandir") && turn % 40 == 0)
            list_programs();
        if (IS("tsearch"))
            for (int i = 0; i < 8; i++)
                index_word(turn * 8 + i);
        if (IS("deflateInit") && turn % 50 == 0)
            compress_page();
        nap(10);
    }
}
