// An operator new that cannot: the exception passes through the probe, with a new_handler that throws another or jumps.
#include "truth.h"
#include <csetjmp>
#include <new>

static jmp_buf out;
static volatile size_t huge = size_t(1) << 62;

static void throwing() { throw 42; }
static void jumping() { longjmp(out, 1); }

int main() {
    mark();
    int caught = 0, thrown = 0;
    volatile int jumped = 0;
    for (int round = 0; round < 100; round++) {
        try {
            void *volatile block = ::operator new(huge);
            (void)block;
        } catch (const std::bad_alloc &) {
            caught++;
        }
    }
    MUST(::operator new(huge, std::nothrow) == nullptr);
    std::set_new_handler(throwing);
    for (int round = 0; round < 100; round++) {
        try {
            void *volatile block = ::operator new[](huge);
            (void)block;
        } catch (int number) {
            thrown += number == 42;
        }
    }
    std::set_new_handler(jumping);
    for (volatile int round = 0; round < 100; round++) {
        if (setjmp(out) == 0) {
            void *volatile block = ::operator new(huge, std::align_val_t(64));
            (void)block;
        }
        jumped++;
    }
    std::set_new_handler(nullptr);
    MUST(caught == 100 && thrown == 100 && jumped == 100);
    mark();
    return 0;
}
