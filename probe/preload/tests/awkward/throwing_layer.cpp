// A preloaded library with operators of its own, which ask neither malloc nor free by their names and throw where there
// is no memory: what they throw passes through the probe.
#include <cstddef>
#include <new>

extern "C" void *__libc_malloc(size_t);
extern "C" void __libc_free(void *);

void *operator new(size_t bytes) {
    for (;;) {
        if (void *block = bytes < (size_t(1) << 40) ? __libc_malloc(bytes) : nullptr)
            return block;
        std::new_handler handler = std::get_new_handler();
        if (!handler)
            throw std::bad_alloc();
        handler();
    }
}
void *operator new[](size_t bytes) { return operator new(bytes); }
void operator delete(void *block) noexcept { __libc_free(block); }
void operator delete[](void *block) noexcept { __libc_free(block); }
void operator delete(void *block, size_t) noexcept { __libc_free(block); }
void operator delete[](void *block, size_t) noexcept { __libc_free(block); }
