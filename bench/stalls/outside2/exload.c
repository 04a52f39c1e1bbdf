// The earlier exam's client and peer, plus: clients over a unix socket (OUT_UNIX=path), `hpeer PORT` (HTTP, answers
// after X-Hold ms), `kpeer PORT` (the earlier peer with idle connections kept), `drain PAUSE EVERY` (reads fd 3, pauses now and then), `keeper FILE HOLD EVERY` (holds flock on FILE).
#include "../outside/ex.h"
#include <poll.h>
#include <sys/file.h>
#include <sys/un.h>
static int ox_dial(int port) {
    const char *u = getenv("OUT_UNIX");
    if (!u || !*u)
        return ex_connect(port);
    struct sockaddr_un a;
    memset(&a, 0, sizeof a);
    a.sun_family = AF_UNIX;
    snprintf(a.sun_path, sizeof a.sun_path, "%s", u);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(s, (struct sockaddr *)&a, sizeof a)) {
        close(s);
        return -1;
    }
    return s;
}
#define ex_connect ox_dial
#define main exload_main
#include "../outside/exload.c"
#undef main
static void *hconn(void *v) {
    int s = (long)v, n = 0;
    char b[8192];
    ex_nodelay(s);
    for (;;) {
        char *e = 0;
        while (n < (int)sizeof b - 1) {
            b[n] = 0;
            if ((e = strstr(b, "\r\n\r\n")))
                break;
            int r = read(s, b + n, sizeof b - 1 - n);
            if (r <= 0)
                goto out;
            n += r;
        }
        if (!e)
            break;
        char *h = strcasestr(b, "x-hold:"), *l = strcasestr(b, "content-length:");
        int hold = h && h < e ? atoi(h + 7) : 0, body = l && l < e ? atoi(l + 15) : 0, have = n - (e + 4 - b);
        while (have < body) {
            char t[4096];
            int r = read(s, t, body - have < 4096 ? body - have : 4096);
            if (r <= 0)
                goto out;
            have += r;
        }
        n = 0;
        ex_sleep_ms(hold);
        static const char ans[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        if (write(s, ans, sizeof ans - 1) < 0)
            break;
    }
out:
    close(s);
    return 0;
}
static NOINL void mortar_set_course(int lk, int fd, double ms) {
    flock(lk, LOCK_EX);
    ex_sync_some(fd, ms);
    flock(lk, LOCK_UN);
}
int main(int c, char **v) {
    if (c > 2 && (!strcmp(v[1], "hpeer") || !strcmp(v[1], "kpeer"))) {
        void *(*serve)(void *) = v[1][0] == 'h' ? hconn : pconn;
        dad = getppid();
        signal(SIGPIPE, SIG_IGN);
        ex_name("exhpeer");
        alarm(125);
        int l = ex_listen(atoi(v[2]));
        struct timeval tv = {1, 0}, forever = {0, 0};
        setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
        while (getppid() == dad) {
            int s = accept(l, 0, 0);
            if (s < 0)
                continue;
            setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof forever);
            pthread_detach(ex_thread(serve, (void *)(long)s));
        }
        return 0;
    }
    if (c > 3 && !strcmp(v[1], "drain")) {
        dad = getppid();
        ex_name("exdrain");
        alarm(125);
        double next = ex_now() + atof(v[3]) / 1e3;
        char b[65536];
        for (;;) {
            if (ex_now() > next) {
                ex_sleep_ms(atof(v[2]));
                next = ex_now() + (atof(v[3]) - atof(v[2])) / 1e3;
            }
            struct pollfd p = {3, POLLIN, 0};
            if (poll(&p, 1, 50) == 1 && read(3, b, sizeof b) <= 0)
                return 0;
            if (getppid() != dad)
                return 0;
        }
    }
    if (c > 4 && !strcmp(v[1], "keeper")) {
        dad = getppid();
        ex_name("mortar");
        alarm(125);
        char p[600];
        snprintf(p, sizeof p, "%s.mortar", v[2]);
        int lk = open(v[2], O_RDWR), fd = open(p, O_RDWR | O_CREAT, 0644);
        while (getppid() == dad) {
            ex_sleep_ms(atof(v[4]));
            mortar_set_course(lk, fd, atof(v[3]));
        }
        return 0;
    }
    return exload_main(c, v);
}
