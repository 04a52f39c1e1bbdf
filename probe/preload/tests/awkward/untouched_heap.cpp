// Prints what the heap of the C library looks like when main begins, and where blocks are put afterwards, relative to
// its start.
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <malloc.h>
#include <new>
#include <unistd.h>

static char *first_break = static_cast<char *>(sbrk(0));

int main() {
    struct mallinfo2 info = mallinfo2();
    char line[400];
    char *last_break = static_cast<char *>(sbrk(0));
    char *blocks[40];
    static const size_t sizes[] = {24, 25, 100, 1000, 1032, 5000, 70000, 16, 64, 32};
    // The second time round another error of dlsym is pending.
    for (int each = 0; each < 40; each++) {
        if (each == 20) dlsym(RTLD_DEFAULT, "no_such_symbol");
        size_t bytes = sizes[each % 10];
        blocks[each] = static_cast<char *>(each % 2 ? malloc(bytes) : ::operator new(bytes));
    }
    char *end = static_cast<char *>(sbrk(0));
    int length = snprintf(line, sizeof line, "arena %zu, used %zu, free %zu in %zu chunks, fast %zu; break moved %ld, %ld\n",
                          info.arena, info.uordblks, info.fordblks, info.ordblks, info.fsmblks,
                          long(last_break - first_break), long(end - first_break));
    if (write(1, line, length) < 0) return 1;
    for (char *block : blocks) {
        length = snprintf(line, sizeof line, "%ld\n", long(block - blocks[0]));
        if (write(1, line, length) < 0) return 1;
    }
    return 0;
}
