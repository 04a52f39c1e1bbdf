// a thread per client and one mutex. `ember` (nice 19) tidies the shelf every 2.4 s: 5 ms of CPU. fault: low (it does so
// under the mutex; beside four busy processes of the normal nice level it is seldom let run, and all requests wait
// for it). Mended: ember computes first and takes the mutex for a moment to publish.
#include "../outside2/ox.h"
#include <sys/resource.h>
#include <sys/syscall.h>
static pthread_mutex_t shelf = PTHREAD_MUTEX_INITIALIZER;
static uint64_t item[1024];
NOINL void hearth_rake(double us) {
    EX_BURN_US(us);
    ex_sink++;
}
NOINL void hearth_tidy(void) {
    int bad = ex_is("low");
    if (!bad)
        hearth_rake(5000);
    pthread_mutex_lock(&shelf);
    if (bad)
        hearth_rake(5000);
    item[3]++;
    pthread_mutex_unlock(&shelf);
    ex_sink++;
}
static void *ember(void *v) {
    ex_name("ember");
    int mine = getpriority(PRIO_PROCESS, 0);
    setpriority(PRIO_PROCESS, syscall(SYS_gettid), 19);
    for (;;) {
        ex_sleep_ms(2400);
        hearth_tidy();
        if (mine >= 19)
            fprintf(stderr, "started niced: no inversion\n");
    }
    return v;
}
NOINL void hearth_take(uint64_t id) {
    pthread_mutex_lock(&shelf);
    item[id & 1023] += id;
    pthread_mutex_unlock(&shelf);
}
static void *brick(void *v) {
    int fd = (long)v;
    ex_name("brick");
    ex_nodelay(fd);
    struct exreq q;
    while (!ex_full(fd, &q, sizeof q, 0)) {
        EX_BURN_US(O.work_us);
        hearth_take(q.id);
        if (ex_full(fd, &q, sizeof q, 1))
            break;
    }
    close(fd);
    return 0;
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 150, 120, 10);
    int l = ex_listen(O.port);
    ex_thread(ember, 0);
    ex_load("keep", 0, 0);
    for (;;)
        pthread_detach(ex_thread(brick, (void *)(long)accept(l, 0, 0)));
}
