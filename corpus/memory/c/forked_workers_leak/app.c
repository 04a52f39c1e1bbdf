// An application server. The master keeps 30 MB of templates and passes request numbers to three workers over pipes.
// Workers lose the fragments of cancelled requests: in mode all_workers each of them, in mode one_worker only the
// second.
#include "../common.h"

static char *fragment[900];

NOINLINE char *render_fragment(unsigned id, unsigned n) {
    char *f = malloc(n);
    memset(f, id, n);
    return f;
}

static void run_worker(int in, int leaks) {
    unsigned id;
    while (read(in, &id, sizeof id) == sizeof id) {
        unsigned n = rng(1500, 9000);
        char *f = render_fragment(id, n);
        serve_requests(15);
        if (id % 4 != 1 || !leaks) {
            unsigned k = rnd() % 900;
            free(fragment[k]);
            fragment[k] = f;
        }
    }
    _exit(0);
}

int main(int argc, char **argv) {
    int one_worker = argc > 1 && !strcmp(argv[1], "one_worker");
    static char *template_[10000];
    int to[3][2];
    for (int i = 0; i < 10000; i++) {
        template_[i] = malloc(3000);
        memset(template_[i], i, 3000);
    }
    for (int w = 0; w < 3; w++) {
        if (pipe(to[w]))
            return 1;
        if (fork() == 0) {
            end_with_parent();
            for (int i = 0; i <= w; i++)
                close(to[i][1]);
            run_worker(to[w][0], !one_worker || w == 1);
        }
        close(to[w][0]);
    }
    unsigned id = 0, sum = 0;
    ready();
    for (;;) {
        for (int k = 0; k < 9; k++) {
            id = rnd();
            if (write(to[k % 3][1], &id, sizeof id) < 0)
                return 1;
        }
        serve_requests(30);
        sum += template_[id % 10000][5];
        nap(12);
    }
}
