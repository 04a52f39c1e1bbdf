// One loss each, at many rates and beside little or much traffic. The modes say which; expected.toml describes them.
#include "../common.h"

static void traffic(int n, int rest_ms) {
    serve_requests(n);
    nap(rest_ms);
}

NOINLINE static void copy_header(const char *text) {
    use(strdup(text));
}

static void five_kb_a_second(void) {
    char header[200];
    memset(header, 'h', sizeof header - 1);
    header[199] = 0;
    for (;; traffic(300, 200))
        for (int i = 0; i < 5; i++)
            copy_header(header);
}

NOINLINE static void format_line(int n) {
    char *line;
    if (asprintf(&line, "request %d took %d ms and answered with %0300d", n, n % 17, n) > 0)
        use(line);
}

static void beside_700_mb(void) {
    static char *shards[7000];
    for (int i = 0; i < 7000; i++)
        shards[i] = memset(malloc(100000), i, 100000);
    use(shards);
    ready();
    for (int n = 0;; traffic(40, 54))
        for (int i = 0; i < 10; i++)
            format_line(n++);
}

NOINLINE static void parse_input_row(void) {
    char *row = calloc(1, 250);
    row[0] = 1;
    use(row);
}

static void *heavy_thread(void *none) {
    for (;; traffic(2700, 60))
        parse_input_row();
    return none;
}

static void beside_100_mb_a_second(void) { // six threads
    pthread_t t;
    for (int i = 0; i < 5; i++)
        pthread_create(&t, NULL, heavy_thread, NULL);
    heavy_thread(NULL);
}

NOINLINE static void decode_frame(int n) {
    use(memset(malloc(60000), n, 60000));
}

static void fast(void) { // until 900 MB are lost
    for (int n = 0; n < 15000; n++) {
        decode_frame(n);
        if (n % 4 == 0)
            traffic(20, 10);
    }
    for (;;)
        traffic(50, 20);
}

NOINLINE static void note_event(long n) {
    long *event = malloc(16);
    *event = n;
    use(event);
    if (n % 200)
        free(event);
}

static void tiny_at_full_speed(void) {
    for (long n = 0;; n++) {
        note_event(n);
        if (n % 16 == 0)
            serve_requests(1);
    }
}

NOINLINE static void load_batch(int n, int frees) {
    static void *rows[6000];
    for (int i = 0; i < n; i++)
        rows[i] = memset(malloc(500), 2, 500);
    nap(800);
    for (int i = 0; frees && i < n; i++)
        free(rows[i]);
}

static void batches(int frees) {
    for (;;) {
        load_batch(6000, frees);
        for (int i = 0; i < 70; i++)
            traffic(100, 100);
    }
}

static void batches_lost(void) {
    batches(0);
}

static void batches_freed(void) {
    batches(1);
}

static void once_at_the_start(void) {
    for (int i = 0; i < 10; i++)
        load_batch(6000, 0);
    ready();
    for (;;)
        traffic(200, 5);
}

NOINLINE static void reserve_bitmap(void) {
    use(malloc(4 * MIB));
}

static void hardly_touched(void) {
    for (;; traffic(100, 100))
        reserve_bitmap();
}

NOINLINE static void render_page(int n) {
    use(memset(malloc(4000), n, 4000));
}

NOINLINE static void render_menu(int n) {
    use(memset(malloc(1000), n, 1000));
}

static void two_at_once(void) {
    for (int n = 0;; n++, traffic(50, 12)) {
        render_page(n);
        render_menu(n);
    }
}

struct leaf {
    struct leaf *left, *right;
    char text[48];
};

NOINLINE static struct leaf *build_tree(int depth) {
    struct leaf *leaf = calloc(1, sizeof *leaf);
    if (depth) {
        leaf->left = build_tree(depth - 1);
        leaf->right = build_tree(depth - 1);
    }
    return leaf;
}

static void whole_trees(void) {
    for (;; traffic(100, 60))
        use(build_tree(6));
}

static inline void read_option(int n) { // no frame of its own: it is inlined
    use(memset(malloc(700), n, 700));
}

NOINLINE static void reload_options(void) {
    for (int n = 0;; n++) {
        read_option(n);
        if (n % 8 == 0)
            traffic(60, 30);
    }
}

NOINLINE static void add_row(int n) {
    use(memset(malloc(2000), n, 2000));
}

static void job_that_ends(void) { // after 25 s
    for (int n = 0; n < 5000; n++) {
        add_row(n);
        traffic(10, 5);
    }
}

#define ONE(n) \
    NOINLINE static void handle_opcode_##n(void) { \
        use(memset(malloc(100 + 0x##n), 0x##n, 100 + 0x##n)); \
    }
#define ROW(h) ONE(h##0) ONE(h##1) ONE(h##2) ONE(h##3) ONE(h##4) ONE(h##5) ONE(h##6) ONE(h##7)
#define AT(h) \
    handle_opcode_##h##0, handle_opcode_##h##1, handle_opcode_##h##2, handle_opcode_##h##3, handle_opcode_##h##4, \
        handle_opcode_##h##5, handle_opcode_##h##6, handle_opcode_##h##7
ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7) ROW(8) ROW(9) ROW(a) ROW(b) ROW(c) ROW(d) ROW(e) ROW(f)

static void of_128_functions(void) {
    static void (*const handlers[])(void) = {AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7),
                                             AT(8), AT(9), AT(a), AT(b), AT(c), AT(d), AT(e), AT(f)};
    for (unsigned n = 0;; n++) {
        handlers[rnd() % 128]();
        if (n % 25 == 0)
            traffic(40, 25);
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
        int is_ready_later;
    } modes[] = {{"five_kb_a_second", five_kb_a_second, 0}, {"beside_700_mb", beside_700_mb, 1},
                 {"beside_100_mb_a_second", beside_100_mb_a_second, 0}, {"fast", fast, 0},
                 {"tiny_at_full_speed", tiny_at_full_speed, 0}, {"batches_lost", batches_lost, 0},
                 {"batches_freed", batches_freed, 0}, {"once_at_the_start", once_at_the_start, 1},
                 {"hardly_touched", hardly_touched, 0}, {"two_at_once", two_at_once, 0},
                 {"whole_trees", whole_trees, 0}, {"inlined", reload_options, 0},
                 {"job_that_ends", job_that_ends, 0}, {"of_128_functions", of_128_functions, 0}};
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name)) {
            if (!modes[i].is_ready_later)
                ready();
            modes[i].run();
        }
}
