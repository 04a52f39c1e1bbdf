// A front server in which every block comes from xmalloc, called from six places. The headers of a reply are built
// again for 304 answers, over those built before.
#include "../common.h"

struct req {
    char *line, *body, *route, *hdr, *log;
    size_t nbody, nhdr;
};

NOINLINE void *xmalloc(size_t n) {
    void *p = malloc(n);
    if (!p) {
        fputs("out of memory\n", stderr);
        abort();
    }
    return p;
}

NOINLINE void parse_request(struct req *r, unsigned id) {
    r->line = xmalloc(512);
    snprintf(r->line, 512, "GET /item/%u?session=%08x HTTP/1.1", id, rnd());
}

NOINLINE void copy_body(struct req *r) {
    r->nbody = rng(500, 9000);
    r->body = xmalloc(r->nbody);
    memset(r->body, 'b', r->nbody);
}

NOINLINE void lookup_route(struct req *r) {
    r->route = xmalloc(1024);
    memset(r->route, 0, 1024);
    strncpy(r->route, r->line + 4, 40);
}

NOINLINE void build_reply_headers(struct req *r, int status) {
    r->nhdr = rng(3000, 9000);
    r->hdr = xmalloc(r->nhdr);
    int n = snprintf(r->hdr, r->nhdr, "HTTP/1.1 %d\r\n", status);
    memset(r->hdr + n, 'h', r->nhdr - n);
}

NOINLINE void write_log(struct req *r) {
    r->log = xmalloc(700);
    snprintf(r->log, 700, "%s %zu", r->line, r->nbody);
}
#define PAGES 9000
static char *page[PAGES];

NOINLINE void cache_page(unsigned i) {
    free(page[i]);
    page[i] = xmalloc(5000);
    memset(page[i], i, 5000);
}

static void done(struct req *r) {
    free(r->line), free(r->body), free(r->route), free(r->hdr), free(r->log);
    memset(r, 0, sizeof *r);
}

int main(void) {
    static struct req open_[2000];
    double t0 = now();
    unsigned id = 0;
    for (unsigned i = 0; i < PAGES; i++)
        cache_page(i);
    ready();
    for (;;) {
        int k = 1 + (int)(swing(now() - t0, 18) * 5);
        while (k--) {
            struct req *r = &open_[++id % 2000];
            if (r->line)
                done(r);
            parse_request(r, id);
            copy_body(r);
            lookup_route(r);
            build_reply_headers(r, 200);
            if (rnd() % 4 == 0) { /* not modified: answer again with other headers */
                build_reply_headers(r, 304);
            }
            write_log(r);
            cache_page(rnd() % PAGES);
        }
        nap(10);
    }
}
