#include "probes.h"

uint64_t seed = 1;

void fill(unsigned char *block, size_t size, unsigned tag) {
    for (size_t i = 0; i < size; i++) block[i] = (unsigned char)(tag * 31 + i * 7 + (i >> 8));
}

int filled(const unsigned char *block, size_t size, unsigned tag) {
    for (size_t i = 0; i < size; i++)
        if (block[i] != (unsigned char)(tag * 31 + i * 7 + (i >> 8))) return 0;
    return 1;
}

static const struct {
    const char *name;
    void (*run)(void);
    /* Misuse on purpose: its signals are an answer, not a surprise. */
    int misuse;
} probes[] = {
    {"symbols", probe_symbols, 0},
    {"sizes", probe_sizes, 0},
    {"alignment", probe_alignment, 0},
    {"overlap", probe_overlap, 0},
    {"usable-size", probe_usable, 0},
    {"reuse", probe_reuse, 0},
    {"threads", probe_threads, 0},
    {"thread-ends", probe_thread_ends, 0},
    {"fork", probe_fork, 0},
    {"oversize", probe_oversize, 0},
    {"errno", probe_errno, 0},
    {"realloc", probe_realloc, 0},
    {"calloc", probe_calloc, 0},
    {"early", probe_early, 0},
    {"dlopen", probe_dlopen, 0},
    {"double-free", protect_double_free, 1},
    {"free-list", protect_free_list, 1},
    {"overrun", protect_overrun, 1},
    {"invalid-free", protect_invalid_free, 1},
    {"order", protect_order, 1},
};

int main(int argc, char **argv) {
    if (argc > 2) seed = strtoull(argv[2], NULL, 10) | 1;
    for (size_t i = 0; argc > 1 && i < sizeof probes / sizeof probes[0]; i++) {
        if (strcmp(argv[1], probes[i].name)) continue;
        if (!probes[i].misuse) watch(argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 20);
        doing(argv[1]);
        probes[i].run();
        doing("the program ends");
        return 0;
    }
    CANNOT("there is no such probe");
}
