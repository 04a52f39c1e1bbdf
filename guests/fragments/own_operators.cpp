// Linked into some programs: operators of the program's own, over malloc, with a limit.
#include <cstdlib>
#include <new>

void *operator new(std::size_t bytes) {
    if (bytes > (std::size_t(1) << 40)) throw std::bad_alloc();
    if (void *block = std::malloc(bytes + 16)) return static_cast<char *>(block) + 16;
    throw std::bad_alloc();
}
void operator delete(void *block) noexcept {
    if (block) std::free(static_cast<char *>(block) - 16);
}
void operator delete(void *block, std::size_t) noexcept { operator delete(block); }
