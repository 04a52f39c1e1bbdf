// no sockets: requests on a pipe, workers share one pipe, each asks a stage thread by pipe. faults: stage, lockread
#include "ex.h"
static int in[2], out[2], work[2], ask[2], ans[5][2], cold;
static pthread_mutex_t cat = PTHREAD_MUTEX_INITIALIZER;
static char *buf, *buf2;
static uint64_t sum;
struct ask {
    int who;
    uint64_t id;
};
NOINL uint64_t farrow_lookup_cold(double ms) {
    uint64_t k = ex_cold_some(cold, ms, buf, 65536, 64 << 20);
    sum += k;
    return k + 1;
}
NOINL uint64_t farrow_rescan_catalog(double ms) {
    uint64_t k = ex_cold_some(cold, ms, buf2, 65536, 64 << 20);
    sum += k;
    return k + 1;
}
static void *stage(void *v) {
    (void)v;
    ex_name("frw-stage");
    double next = ex_now() + 3;
    struct ask a;
    while (!ex_full(ask[0], &a, sizeof a, 0)) {
        EX_BURN_US(80);
        if (ex_is("stage") && ex_now() > next) {
            farrow_lookup_cold(150);
            next = ex_now() + 2.5;
        }
        ex_full(ans[a.who][1], &a, sizeof a, 1);
    }
    return 0;
}
static void *mill(void *v) {
    int k = (long)v;
    ex_name("frw-mill");
    struct exreq q;
    while (!ex_full(work[0], &q, sizeof q, 0)) {
        struct ask a = {k, q.id};
        ex_full(ask[1], &a, sizeof a, 1);
        ex_full(ans[k][0], &a, sizeof a, 0);
        pthread_mutex_lock(&cat);
        EX_BURN_US(50);
        sum++;
        pthread_mutex_unlock(&cat);
        EX_BURN_US(O.work_us);
        ex_full(out[1], &q, sizeof q, 1);
    }
    return 0;
}
static void *rescan(void *v) {
    (void)v;
    ex_name("frw-rescan");
    for (;;) {
        ex_sleep_ms(2600);
        if (ex_is("lockread")) {
            pthread_mutex_lock(&cat);
            farrow_rescan_catalog(150);
            pthread_mutex_unlock(&cat);
        } else if (ex_is("none"))
            farrow_rescan_catalog(150);
    }
    return 0;
}
int main(int c, char **v) {
    ex_args(c, v, 21080, 180, 300, 1);
    ex_bigfile("farrow.cat", 64);
    cold = ex_file("farrow.cat", O_RDONLY);
    buf = malloc(65536);
    buf2 = malloc(65536);
    if (pipe(in) || pipe(out) || pipe(work) || pipe(ask))
        return 1;
    for (long i = 0; i < 5; i++) {
        if (pipe(ans[i]))
            return 1;
    }
    int f[2] = {in[1], out[0]};
    ex_load("pipe", 2, f);
    close(in[1]);
    close(out[0]);
    for (long i = 0; i < 5; i++)
        ex_thread(mill, (void *)i);
    ex_thread(stage, 0);
    ex_thread(rescan, 0);
    ex_name("frw-intake");
    struct exreq q;
    while (!ex_full(in[0], &q, sizeof q, 0))
        ex_full(work[1], &q, sizeof q, 1);
    return 0;
}
