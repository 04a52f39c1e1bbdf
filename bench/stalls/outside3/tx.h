// what several of the C and C++ services share: a thread per connection
#pragma once
#include "../outside/ex.h"
static const char *tx_label;
static void (*tx_do)(uint64_t id);
static void *tx_conn(void *v) {
    int s = (long)v;
    ex_name(tx_label);
    ex_nodelay(s);
    struct exreq q;
    while (!ex_full(s, &q, sizeof q, 0)) {
        tx_do(q.id);
        if (ex_full(s, &q, sizeof q, 1))
            break;
    }
    close(s);
    return 0;
}
static void tx_serve(int l, const char *label, void (*f)(uint64_t)) {
    tx_label = label;
    tx_do = f;
    for (;;) {
        int s = accept(l, 0, 0);
        if (s >= 0)
            pthread_detach(ex_thread(tx_conn, (void *)(long)s));
    }
}
