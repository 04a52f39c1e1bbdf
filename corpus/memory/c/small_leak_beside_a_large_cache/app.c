// A web accelerator: 150 MB of cached pages turn over at 15 MB/s, and beside them is a small record for each client,
// of which every third is not freed.
#include "../common.h"

enum { PAGES = 50000, CLIENTS = 3000 };
static char *page[PAGES];
static struct client {
    unsigned ip, hits;
    char agent[];
} *client[CLIENTS];

NOINLINE char *fetch_page(void) {
    size_t n = 1024u << rnd() % 3; /* three sizes: the holes are of use to the next */
    n += n / 2;
    char *p = malloc(n);
    memset(p, 'p', n);
    return p;
}

NOINLINE struct client *note_client(unsigned ip) {
    size_t n = 700 + ip % 200;
    struct client *c = malloc(sizeof *c + n);
    memset(c, 0, sizeof *c + n);
    c->ip = ip;
    return c;
}

int main(void) {
    for (int i = 0; i < PAGES; i++)
        page[i] = fetch_page();
    ready();
    for (;;) {
        for (int i = 0; i < 45; i++) {
            unsigned k = rnd() % PAGES;
            free(page[k]);
            page[k] = fetch_page();
        }
        for (int i = 0; i < 18; i++) {
            unsigned k = rnd() % CLIENTS;
            if (!client[k] || client[k]->ip % 3) /* the others were for the statistics once */
                free(client[k]);
            client[k] = note_client(rnd());
        }
        nap(10);
    }
}
