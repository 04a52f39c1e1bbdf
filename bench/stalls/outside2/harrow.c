// unix socket, a connection per request, six threads in accept(). fault: spawn (cinder holds the mutex while it runs
// /bin/sleep 0.18 and waits for it). Mended: runs it first, then takes the mutex.
#include "ox.h"
#include <spawn.h>
#include <sys/un.h>
#include <sys/wait.h>
extern char **environ;
static pthread_mutex_t field = PTHREAD_MUTEX_INITIALIZER;
static uint64_t furrow[512];
static int ls;
NOINL int harrow_consult(void) {
    char *av[] = {"sleep", "0.18", 0};
    pid_t p;
    int st = 1;
    if (posix_spawn(&p, "/bin/sleep", 0, 0, av, environ))
        return -1;
    while (waitpid(p, &st, 0) < 0 && errno == EINTR)
        ;
    return st + 1;
}
NOINL void sow(uint64_t id) {
    pthread_mutex_lock(&field);
    furrow[id & 511]++;
    EX_BURN_US(O.work_us / 4);
    pthread_mutex_unlock(&field);
}
static void *cinder(void *v) {
    ex_name("cinder");
    for (;;) {
        ex_sleep_ms(2150);
        int r = 0, f = ex_is("spawn");
        if (!f)
            r = harrow_consult();
        pthread_mutex_lock(&field);
        if (f)
            r = harrow_consult();
        furrow[9] += r;
        pthread_mutex_unlock(&field);
    }
    return v;
}
static void *rook(void *v) {
    ex_name("rook");
    for (;;) {
        int s = accept4(ls, 0, 0, SOCK_CLOEXEC);
        if (s < 0)
            continue;
        struct exreq q;
        if (!ex_full(s, &q, sizeof q, 0)) {
            EX_BURN_US(O.work_us);
            sow(q.id);
            ex_full(s, &q, sizeof q, 1);
        }
        close(s);
    }
    return v;
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 170, 300, 12);
    struct sockaddr_un a;
    memset(&a, 0, sizeof a);
    a.sun_family = AF_UNIX;
    snprintf(a.sun_path, sizeof a.sun_path, "%s/harrow.sock", O.dir);
    unlink(a.sun_path);
    ls = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(ls, (struct sockaddr *)&a, sizeof a) || listen(ls, 256)) {
        perror(a.sun_path);
        return 4;
    }
    setenv("OUT_UNIX", a.sun_path, 1);
    for (int i = 0; i < 6; i++)
        ex_thread(rook, 0);
    ex_thread(cinder, 0);
    ex_load("conn", 0, 0);
    for (;;)
        pause();
}
