// At a fixed address (-no-pie), with the addresses of the allocator's functions taken in code: to a look-up these functions are
// stubs of the program then, and still nobody's but the library's that is next in line.
#include "truth.h"
#include <new>

int main() {
    void *(*volatile get)(size_t) = malloc;
    void (*volatile put)(void *) = free;
    void *(*volatile make)(size_t) = ::operator new;
    void (*volatile end)(void *) = ::operator delete;
    mark();
    for (int round = 0; round < 1000; round++) {
        MUST(took(get(200)));
        MUST(took(make(300)));
        put(gives(took(get(100))));
        end(gives(took(make(100))));
    }
    mark();
    return 0;
}
