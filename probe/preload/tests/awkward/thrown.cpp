// What operator new throws, and what its handler throws, again and again between blocks that it gives.
#include <cstdio>
#include <new>

static volatile size_t huge = size_t(1) << 62;

static void throwing() { throw 42; }

int main() {
    int caught = 0, thrown = 0;
    for (int round = 0; round < 200; round++) {
        std::set_new_handler(round % 2 ? throwing : nullptr);
        delete[] new char[round + 1];
        try {
            void *volatile block = ::operator new(huge);
            (void)block;
        } catch (const std::bad_alloc &) {
            caught++;
        } catch (int number) {
            thrown += number == 42;
        }
    }
    std::printf("%d %d\n", caught, thrown);
    return 0;
}
