// Every form of operator new and delete, an exception thrown through them, and containers.
#include "truth.h"
#include <memory>
#include <new>
#include <string>
#include <vector>

static void *keep(void *block) {
    MUST(block);
    return took(block);
}

int main() {
    using std::align_val_t;
    using std::nothrow;
    mark();
    std::vector<void *> *none = nullptr;
    (void)none;
    for (int round = 0; round < 100; round++) {
        void *plain[8] = {
            keep(::operator new(100)),
            keep(::operator new[](100)),
            keep(::operator new(100, nothrow)),
            keep(::operator new[](100, nothrow)),
            keep(::operator new(100)),
            keep(::operator new[](100)),
            keep(::operator new(100)),
            keep(::operator new[](100)),
        };
        void *aligned[8] = {
            keep(::operator new(100, align_val_t(64))),
            keep(::operator new[](100, align_val_t(64))),
            keep(::operator new(100, align_val_t(64), nothrow)),
            keep(::operator new[](100, align_val_t(64), nothrow)),
            keep(::operator new(100, align_val_t(64))),
            keep(::operator new[](100, align_val_t(64))),
            keep(::operator new(100, align_val_t(64))),
            keep(::operator new[](100, align_val_t(64))),
        };
        // The last of each stays.
        ::operator delete(gives(plain[0]));
        ::operator delete[](gives(plain[1]));
        ::operator delete(gives(plain[2]), nothrow);
        ::operator delete[](gives(plain[3]), nothrow);
        ::operator delete(gives(plain[4]), size_t(100));
        ::operator delete[](gives(plain[5]), size_t(100));
        ::operator delete(gives(plain[6]));
        ::operator delete(gives(aligned[0]), align_val_t(64));
        ::operator delete[](gives(aligned[1]), align_val_t(64));
        ::operator delete(gives(aligned[2]), align_val_t(64), nothrow);
        ::operator delete[](gives(aligned[3]), align_val_t(64), nothrow);
        ::operator delete(gives(aligned[4]), size_t(100), align_val_t(64));
        ::operator delete[](gives(aligned[5]), size_t(100), align_val_t(64));
        ::operator delete(gives(aligned[6]), align_val_t(64));
    }
    int caught = 0;
    for (int round = 0; round < 10; round++) {
        try {
            void *volatile huge = ::operator new(size_t(1) << 62);
            (void)huge;
        } catch (const std::bad_alloc &) {
            caught++;
        }
    }
    MUST(caught == 10);
    MUST(::operator new(size_t(1) << 62, nothrow) == nullptr);
    {
        std::vector<std::string> words;
        for (int at = 0; at < 10000; at++) words.push_back(std::string(at % 300, 'x'));
    }
    mark();
    return 0;
}
