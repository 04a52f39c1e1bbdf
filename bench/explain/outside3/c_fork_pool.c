// application server: the master keeps 30 MB of templates and hands request numbers to three workers over pipes; every worker loses
// the fragments of requests that were cancelled
#include "work.h"
#include <signal.h>
#include <sys/prctl.h>
static char *fragment[900];
NOINLINE char *render_fragment(unsigned id, unsigned n) {
    char *f = malloc(n);
    memset(f, id, n);
    return f;
}
static void worker(int in) {
    unsigned id;
    while (read(in, &id, sizeof id) == sizeof id) {
        unsigned n = rng(1500, 9000);
        char *f = render_fragment(id, n);
        bystanders(15);
        if (id % 4 == 1)
            lost_ += n;
        else {
            unsigned k = rnd() % 900;
            free(fragment[k]);
            fragment[k] = f;
        }
        truth();
    }
    _exit(0);
}
int main(void) {
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
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (int i = 0; i <= w; i++)
                close(to[i][1]);
            worker(to[w][0]);
        }
        close(to[w][0]);
    }
    double t0 = now();
    unsigned id = 0, sum = 0;
    while (now() - t0 < RUN_LIMIT) {
        for (int k = 0; k < 9; k++) {
            id = rnd();
            if (write(to[k % 3][1], &id, sizeof id) < 0)
                return 1;
        }
        bystanders(30);
        sum += template_[id % 10000][5];
        truth();
        nap(12);
    }
    return sum == 1;
}
