// `operator new` and `operator delete` in all forms, and what they do on sizes that cannot be had:
// `new new` and `new new-throw`. Exit codes as in probes.h.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <unistd.h>

namespace {

[[noreturn]] void defect(const char *words) {
    if (write(1, words, std::strlen(words))) {
    }
    _exit(1);
}

void use(void *block, std::size_t size, std::size_t alignment) {
    if (!block) defect("operator new returned null");
    if (reinterpret_cast<std::uintptr_t>(block) % alignment)
        defect("operator new returned a misaligned block");
    if (malloc_usable_size(block) < size) defect("operator new returned a block that is too small");
    std::memset(block, 1, size);
}

template <class Take> void must_throw(Take take) {
    try {
        take();
    } catch (const std::bad_alloc &) {
        return;
    }
    defect("operator new of an impossible size did not throw bad_alloc");
}

void plain(std::size_t size) {
    void *block = ::operator new(size);
    use(block, size, 8), ::operator delete(block);
    block = ::operator new[](size);
    use(block, size, 8), ::operator delete[](block);
    block = ::operator new(size);
    use(block, size, 8), ::operator delete(block, size);
    block = ::operator new[](size);
    use(block, size, 8), ::operator delete[](block, size);
    block = ::operator new(size, std::nothrow);
    use(block, size, 8), ::operator delete(block, std::nothrow);
    block = ::operator new[](size, std::nothrow);
    use(block, size, 8), ::operator delete[](block, std::nothrow);
}

void aligned(std::size_t size, std::size_t alignment) {
    auto at = static_cast<std::align_val_t>(alignment);
    void *block = ::operator new(size, at);
    use(block, size, alignment), ::operator delete(block, at);
    block = ::operator new[](size, at);
    use(block, size, alignment), ::operator delete[](block, at);
    block = ::operator new(size, at);
    use(block, size, alignment), ::operator delete(block, size, at);
    block = ::operator new[](size, at);
    use(block, size, alignment), ::operator delete[](block, size, at);
    block = ::operator new(size, at, std::nothrow);
    use(block, size, alignment), ::operator delete(block, at, std::nothrow);
    block = ::operator new[](size, at, std::nothrow);
    use(block, size, alignment), ::operator delete[](block, at, std::nothrow);
}

} // namespace

static void forms() {
    for (std::size_t size = 1; size < 300000; size += size / 3 + 1) {
        plain(size);
        for (std::size_t alignment = 16; alignment <= 65536; alignment *= 4)
            aligned(size, alignment);
    }
    // Blocks cross between C and C++ in real programs.
    std::free(::operator new(100));
    ::operator delete(std::malloc(100));
    ::operator delete(nullptr);
}

static void refusals() {
    volatile std::size_t impossible = SIZE_MAX / 2 + 1;
    must_throw([&] { return ::operator new(impossible); });
    must_throw([&] { return ::operator new[](impossible); });
    if (::operator new(impossible, std::nothrow))
        defect("nothrow new of an impossible size returned a block");
}

int main(int count, char **words) {
    if (count > 1 && !std::strcmp(words[1], "new-throw"))
        refusals();
    else
        forms();
}
