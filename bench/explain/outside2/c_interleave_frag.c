// document index: entries of 4 KB replace the oldest ones (the table has a fixed size: live is flat); while a batch is indexed a
// scratch block sits between every two entries, and the next batch needs slightly larger scratch than the holes left behind
#include "util.h"
#define TABLE 36000
#define BATCH 850
static char *table_[TABLE];
static unsigned at;
NOINLINE char *index_entry(unsigned id) {
    char *p = malloc(4000);
    memset(p, id, 4000);
    return p;
}
NOINLINE char *scratch_block(size_t n) {
    char *p = malloc(n);
    memset(p, 1, n);
    return p;
}
static void index_batch(size_t scratch) {
    static char *tmp[BATCH], *entry[BATCH];
    for (int i = 0; i < BATCH; i++) {
        tmp[i] = scratch_block(scratch);
        entry[i] = index_entry(at + i);
        if (i % 25 == 0)
            nap(20);
    }
    for (int i = 0; i < BATCH; i++) {
        char **slot = &table_[at++ % TABLE];
        free(*slot);
        *slot = entry[i];
        free(tmp[i]);
    }
}
int main(void) {
    double t0 = now();
    size_t scratch = 1900;
    for (int i = 0; i < TABLE; i++)
        table_[i] = index_entry(i);
    live_ = TABLE * 4000L;
    while (now() - t0 < RUN_LIMIT) {
        index_batch(scratch);
        scratch = scratch + 48 > 3900 ? 1900 : scratch + 48;
        truth();
        nap(800);
    }
    return 0;
}
