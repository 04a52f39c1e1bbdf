// operator new of a size that cannot be had throws std::bad_alloc.
#include <cstdint>
#include <cstdio>
#include <new>

int main() {
    volatile std::size_t huge = SIZE_MAX / 2 + 1;
    try {
        void *block = ::operator new(huge);
        std::printf("operator new(SIZE_MAX / 2 + 1) = %p, expected std::bad_alloc\n", block);
    } catch (const std::bad_alloc &) {
        return 0;
    }
    return 1;
}
