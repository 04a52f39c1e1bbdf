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
} probes[] = {
    {"alignment", probe_alignment},
    {"overlap", probe_overlap},
    {"usable-size", probe_usable},
    {"threads", probe_threads},
    {"thread-ends", probe_thread_ends},
    {"fork", probe_fork},
    {"oversize", probe_oversize},
    {"errno", probe_errno},
    {"realloc", probe_realloc},
    {"calloc", probe_calloc},
    {"early", probe_early},
    {"dlopen", probe_dlopen},
    {"double-free", protect_double_free},
    {"free-list", protect_free_list},
    {"overrun", protect_overrun},
    {"invalid-free", protect_invalid_free},
    {"order", protect_order},
};

int main(int argc, char **argv) {
    if (argc > 2) seed = strtoull(argv[2], NULL, 10) | 1;
    for (size_t i = 0; argc > 1 && i < sizeof probes / sizeof probes[0]; i++) {
        if (strcmp(argv[1], probes[i].name)) continue;
        probes[i].run();
        return 0;
    }
    CANNOT("there is no such probe");
}
