// HTTP-ish server: epoll loop, connection table; Cookie header value is not released when the request is reset for
// keep-alive
#define _GNU_SOURCE
#include "util.h"
#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
struct hdr {
    struct hdr *next;
    char *name;
    char *value;
};
struct conn {
    int fd;
    char *rbuf;
    size_t len;
    struct hdr *hdrs;
    unsigned served;
};
static struct sockaddr_un sa;
static socklen_t salen;
static double t0;
static struct conn *conns[4096];
NOINLINE char *header_store(struct conn *c, const char *n, size_t nl, const char *v, size_t vl) {
    struct hdr *h = malloc(sizeof *h);
    h->name = malloc(nl + 1);
    memcpy(h->name, n, nl);
    h->name[nl] = 0;
    h->value = malloc(vl + 1);
    memcpy(h->value, v, vl);
    h->value[vl] = 0;
    h->next = c->hdrs;
    c->hdrs = h;
    return h->value;
}
NOINLINE void request_reset(struct conn *c) {
    struct hdr *h = c->hdrs;
    while (h) {
        struct hdr *n = h->next;
        if (strcmp(h->name, "Cookie"))
            free(h->value);
        free(h->name);
        free(h);
        h = n;
    }
    c->hdrs = 0;
    c->len = 0;
}
NOINLINE void handle_request(struct conn *c) {
    char *p = c->rbuf, *end = c->rbuf + c->len;
    while (p < end) {
        char *nl = memchr(p, '\n', end - p);
        if (!nl)
            break;
        char *col = memchr(p, ':', nl - p);
        if (col)
            header_store(c, p, col - p, col + 1, nl - col - 1);
        p = nl + 1;
    }
    size_t bl = rng(8000, 60000);
    char *body = malloc(bl);
    memset(body, 'x', bl);
    char out[64];
    memcpy(out, body + bl - 64, 64);
    if (write(c->fd, out, 64) < 0) {
    }
    free(body);
    c->served++;
    request_reset(c);
}
static void conn_close(struct conn *c) {
    conns[c->fd] = 0;
    close(c->fd);
    request_reset(c);
    free(c->rbuf);
    free(c);
}
static void *clients(void *a) {
    (void)a;
    enum { N = 250 };
    int fd[N];
    memset(fd, -1, sizeof fd);
    char req[4096], sink[64];
    while (now() - t0 < RUN_LIMIT) {
        for (int k = 0; k < 3; k++) {
            int i = rnd() % N;
            if (fd[i] >= 0 && rnd() % 20 == 0) {
                close(fd[i]);
                fd[i] = -1;
            }
            if (fd[i] < 0) {
                fd[i] = socket(AF_UNIX, SOCK_STREAM, 0);
                if (connect(fd[i], (void *)&sa, salen)) {
                    close(fd[i]);
                    fd[i] = -1;
                    continue;
                }
            }
            int n = 0;
            for (int h = 0; h < 8; h++)
                n += sprintf(req + n, "X-Field-%d:%0*u\n", h, (int)rng(20, 200), rnd());
            if (rnd() % 2)
                n += sprintf(req + n, "Cookie:%0*u\n", (int)rng(300, 900), rnd());
            req[n++] = '\n';
            if (write(fd[i], req, n) < 0) {
                close(fd[i]);
                fd[i] = -1;
                continue;
            }
            while (recv(fd[i], sink, 64, MSG_DONTWAIT) > 0)
                ;
        }
        nap(9);
    }
    return 0;
}
int main(void) {
    signal(SIGPIPE, SIG_IGN);
    t0 = now();
    sa.sun_family = AF_UNIX;
    salen = sizeof(sa_family_t) + 1 + sprintf(sa.sun_path + 1, "outsideconn%d", getpid());
    int ls = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(ls, (void *)&sa, salen) || listen(ls, 128)) {
        perror("bind");
        return 1;
    }
    int ep = epoll_create1(0);
    struct epoll_event ev = {EPOLLIN, {.fd = ls}}, evs[64];
    epoll_ctl(ep, EPOLL_CTL_ADD, ls, &ev);
    pthread_t t;
    pthread_create(&t, 0, clients, 0);
    while (now() - t0 < RUN_LIMIT) {
        int n = epoll_wait(ep, evs, 64, 200);
        for (int i = 0; i < n; i++) {
            int fd = evs[i].data.fd;
            if (fd == ls) {
                int c = accept4(ls, 0, 0, SOCK_NONBLOCK);
                if (c < 0 || c >= 4096)
                    continue;
                struct conn *k = calloc(1, sizeof *k);
                k->fd = c;
                k->rbuf = malloc(32768);
                memset(k->rbuf, 0, 32768);
                conns[c] = k;
                struct epoll_event e = {EPOLLIN, {.fd = c}};
                epoll_ctl(ep, EPOLL_CTL_ADD, c, &e);
                continue;
            }
            struct conn *c = conns[fd];
            if (!c)
                continue;
            ssize_t r = read(fd, c->rbuf, 32768);
            if (r <= 0) {
                if (r == 0 || errno != EAGAIN)
                    conn_close(c);
                continue;
            }
            c->len = r;
            handle_request(c);
        }
    }
    return 0;
}
