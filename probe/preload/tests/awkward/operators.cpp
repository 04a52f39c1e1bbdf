// Every form of operator new and delete, and containers.
#include "truth.h"
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
    {
        std::vector<std::string> words;
        for (int at = 0; at < 10000; at++) words.push_back(std::string(at % 300, 'x'));
    }
    mark();
    return 0;
}
