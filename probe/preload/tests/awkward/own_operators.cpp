// A program with operators new and delete of its own, over a pool that refuses a block of anybody else's. It stands in
// front of every library: the C++ library's other forms come to its two, and nobody else's are ever called by it.
#include "truth.h"
#include <new>
#include <string>

alignas(16) static char pool[1 << 20];
static size_t used;

void *operator new(size_t bytes) {
    size_t at = used;
    used += (bytes + 15) & ~(size_t)15;
    MUST(used <= sizeof pool);
    return pool + at;
}

void operator delete(void *block) noexcept {
    MUST(!block || ((char *)block >= pool && (char *)block < pool + sizeof pool));
}

void operator delete(void *block, size_t) noexcept { operator delete(block); }

int main() {
    mark();
    for (int round = 0; round < 100; round++) {
        std::string *text = new std::string(200, 'x');
        delete text;
        char *some = new char[100];
        delete[] some;
        void *other = ::operator new(100, std::nothrow);
        ::operator delete(other, std::nothrow);
        MUST(took(malloc(300)));
    }
    mark();
    return 0;
}
