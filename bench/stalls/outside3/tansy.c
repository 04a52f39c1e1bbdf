// Names come from a UDP server on 127.0.0.1 and are kept on a shelf under a pthread mutex. Faults: ask (name 0 is good
// for 2.2 s; the request that finds it stale asks, 220 ms, with the mutex held), many (`steward` holds the mutex over 45
// datagrams to and fro of 5 ms each, every 2.8 s). Mended: steward does both with the shelf free.
#include "tx.h"
#include <sys/wait.h>
static pthread_mutex_t shelf = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t v;
    double until;
} leaf[8];
static void far(void) {
    pid_t dad = getpid();
    if (fork())
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ex_name("exnames");
    alarm(125);
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(O.port + 1), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (bind(s, (struct sockaddr *)&a, sizeof a))
        _exit(4);
    while (getppid() == dad) {
        struct exreq q;
        socklen_t n = sizeof a;
        if (recvfrom(s, &q, sizeof q, 0, (struct sockaddr *)&a, &n) != sizeof q)
            continue;
        ex_sleep_ms(q.t);
        sendto(s, &q, sizeof q, 0, (struct sockaddr *)&a, n);
    }
    _exit(0);
}
NOINL uint64_t tansy_ask(uint64_t k, uint64_t ms) {
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(O.port + 1), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval tv = {1, 0};
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    struct exreq q = {k, ms};
    if (connect(s, (struct sockaddr *)&a, sizeof a) || send(s, &q, sizeof q, 0) < 0 || recv(s, &q, sizeof q, 0) < 0)
        q.id = 0;
    close(s);
    return q.id + 1;
}
NOINL uint64_t tansy_gather(int n) {
    uint64_t x = 0;
    for (int i = 0; i < n; i++)
        x += tansy_ask(i, 5);
    return x;
}
NOINL uint64_t tansy_find(uint64_t id) {
    pthread_mutex_lock(&shelf);
    unsigned k = id % 8;
    if (ex_is("ask") && leaf[k].until < ex_now()) {
        leaf[k].v = tansy_ask(id, k ? 1 : 220);
        leaf[k].until = ex_now() + (k ? 1e6 : 2.2);
    }
    uint64_t v = leaf[k].v;
    pthread_mutex_unlock(&shelf);
    return v;
}
static void *steward(void *v) {
    ex_name("steward");
    for (;;) {
        ex_sleep_ms(2570);
        if (ex_is("ask"))
            continue;
        if (ex_is("many")) {
            pthread_mutex_lock(&shelf);
            leaf[1].v = tansy_gather(45);
            pthread_mutex_unlock(&shelf);
            continue;
        }
        uint64_t a = tansy_gather(45), b = tansy_ask(0, 220);
        pthread_mutex_lock(&shelf);
        leaf[1].v = a;
        leaf[0].v = b;
        pthread_mutex_unlock(&shelf);
    }
    return v;
}
static void petal(uint64_t id) {
    EX_BURN_US(O.work_us);
    ex_sink += tansy_find(id);
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 160, 300, 10);
    int l = ex_listen(O.port);
    far();
    ex_sleep_ms(100);
    ex_thread(steward, 0);
    ex_load("keep", 0, 0);
    tx_serve(l, "petal", petal);
}
