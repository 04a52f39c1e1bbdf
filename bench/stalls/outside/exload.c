// client process, slow peer, hog.  exload load MODE PORT CONNS RATE BURST SECS TRUTH | exload peer PORT | exload hog
// SECS
#include "ex.h"
static pid_t dad;
static int port, conns, rate, burst, secs;
static const char *mode, *truth;
static double t0;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static double *lat;
static long nlat;
static double slow[4000][2];
static int nslow;
static volatile int stop;
static long errs;
#define CAP 2000000
static void note(double a, double b) {
    if (a - t0 < 1.5)
        return;
    pthread_mutex_lock(&mu);
    if (nlat < CAP)
        lat[nlat++] = (b - a) * 1e3;
    if (b - a > 0.020 && nslow < 4000) {
        slow[nslow][0] = a;
        slow[nslow++][1] = (b - a) * 1e3;
    }
    pthread_mutex_unlock(&mu);
}
static int cmp(const void *a, const void *b) {
    double x = *(double *)a, y = *(double *)b;
    return x < y ? -1 : x > y;
}
static void report(void) {
    pthread_mutex_lock(&mu);
    stop = 1;
    qsort(lat, nlat, sizeof *lat, cmp);
    char head[400];
    snprintf(head, sizeof head,
             "\"n\":%ld,\"p50_ms\":%.2f,\"p99_ms\":%.2f,\"max_ms\":%.1f,\"over20\":%d,\"errors\":%ld,\"secs\":%.1f",
             nlat, nlat ? lat[nlat / 2] : 0, nlat ? lat[nlat * 99 / 100] : 0, nlat ? lat[nlat - 1] : 0, nslow, errs,
             ex_now() - t0);
    printf("{%s}\n", head);
    fflush(stdout);
    if (truth && *truth) {
        FILE *f = fopen(truth, "w");
        if (f) {
            fprintf(f, "{%s,\"slow\":[", head);
            for (int i = 0; i < nslow; i++)
                fprintf(f, "%s[%.4f,%.1f]", i ? "," : "", slow[i][0], slow[i][1]);
            fprintf(f, "]}\n");
            fclose(f);
        }
    }
    _exit(0);
}
static int dial(void) {
    for (int i = 0; i < 100; i++) {
        int s = ex_connect(port);
        if (s >= 0)
            return s;
        ex_sleep_ms(50);
        if (getppid() != dad)
            return -1;
    }
    return -1;
}
static void *client(void *v) {
    long k = (long)v;
    double step = (double)conns / rate, next = t0 + 0.3 + (burst ? 0 : step * k / conns);
    int s = -1;
    uint64_t id = k * 1000003;
    unsigned rs = k + 7;
    if (!strcmp(mode, "keep"))
        s = dial();
    while (!stop) {
        double n = ex_now();
        double j = burst ? 0 : step * 0.3 * (rand_r(&rs) / (double)RAND_MAX - 0.5);
        if (next + j > n)
            ex_sleep_ms((next + j - n) * 1e3);
        next += step;
        n = ex_now();
        while (next < n)
            next += step;
        struct exreq q = {++id, 0};
        double a = ex_now();
        if (!strcmp(mode, "conn"))
            s = ex_connect(port);
        if (s < 0 || ex_full(s, &q, sizeof q, 1) || ex_full(s, &q, sizeof q, 0)) {
            if (getppid() != dad)
                return 0;
            __atomic_add_fetch(&errs, 1, __ATOMIC_RELAXED);
            if (s >= 0)
                close(s);
            ex_sleep_ms(100);
            if (!strcmp(mode, "keep"))
                s = dial();
            continue;
        }
        note(a, ex_now());
        if (!strcmp(mode, "conn"))
            close(s);
    }
    return 0;
}
static void *preader(void *v) {
    struct exreq q;
    while (!ex_full(4, &q, sizeof q, 0))
        note(q.t / 1e6, ex_now());
    return v;
}
static void *pwriter(void *v) {
    double next = t0 + .3;
    uint64_t id = 0;
    while (!stop) {
        double n = ex_now();
        if (next > n)
            ex_sleep_ms((next - n) * 1e3);
        next += 1.0 / rate;
        if (next < n - .5)
            next = n;
        struct exreq q = {++id, (uint64_t)(ex_now() * 1e6)};
        if (ex_full(3, &q, sizeof q, 1))
            break;
    }
    return v;
}
static void *pconn(void *v) {
    int s = (long)v;
    ex_nodelay(s);
    struct exreq q;
    while (!ex_full(s, &q, sizeof q, 0)) {
        ex_sleep_ms(q.t);
        if (ex_full(s, &q, sizeof q, 1))
            break;
    }
    close(s);
    return 0;
}
static void onterm(int s) {
    (void)s;
    stop = 2;
}
int main(int c, char **v) {
    dad = getppid();
    signal(SIGPIPE, SIG_IGN);
    if (c < 3)
        return 2;
    if (!strcmp(v[1], "hog")) {
        ex_name("exhog");
        double e = ex_now() + atof(v[2]);
        while (ex_now() < e && getppid() == dad)
            EX_BURN_US(50000);
        return 0;
    }
    if (!strcmp(v[1], "peer")) {
        ex_name("expeer");
        alarm(125);
        int l = ex_listen(atoi(v[2]));
        struct timeval tv = {1, 0};
        setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
        while (getppid() == dad) {
            int s = accept(l, 0, 0);
            if (s >= 0)
                pthread_detach(ex_thread(pconn, (void *)(long)s));
        }
        return 0;
    }
    mode = v[2];
    port = atoi(v[3]);
    conns = atoi(v[4]);
    rate = atoi(v[5]);
    burst = atoi(v[6]);
    secs = atoi(v[7]);
    truth = c > 8 ? v[8] : "";
    lat = malloc(CAP * sizeof(double));
    signal(SIGTERM, onterm);
    t0 = ex_now();
    if (!strcmp(mode, "pipe")) {
        ex_thread(preader, 0);
        ex_thread(pwriter, 0);
    } else
        for (long i = 0; i < conns; i++)
            ex_thread(client, (void *)i);
    while (getppid() == dad && ex_now() - t0 < secs + 1 && stop != 2)
        ex_sleep_ms(50);
    report();
}
