// C++: exceptions out of constructors that allocate, new handlers, containers, threads of the standard library.
#include "guest.h"
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {
volatile size_t huge = size_t(1) << 62;

struct Part {
    std::vector<char> room;
    static std::atomic<int> live;
    explicit Part(long bytes) : room(bytes) { live++; }
    ~Part() { live--; }
};
std::atomic<int> Part::live;

struct Whole {
    Part first;
    std::unique_ptr<Part> second;
    Whole(long bytes, bool fails) : first(bytes), second(new Part(bytes)) {
        if (fails) throw std::runtime_error(std::string(200, 'x'));
    }
};

struct alignas(128) Wide {
    char room[1000];
};

int handled;
void throwing() { throw 42; }
void giving_up() {
    free(malloc(100000));
    if (++handled % 3 == 0) std::set_new_handler(nullptr);
}
} // namespace

extern "C" {
// step thrown_from_constructor(rounds: 1 50 1..100, bytes: 100 100000 1..300000)
void thrown_from_constructor(long rounds, long bytes) {
    int caught = 0;
    for (long round = 0; round < rounds; round++) {
        try {
            std::unique_ptr<Whole> whole(new Whole(bytes, round % 2 == 0));
            std::unique_ptr<Whole[]> none;
        } catch (const std::exception &error) {
            caught += std::string(error.what()).size() == 200;
        }
    }
    say("thrown_from_constructor: %d caught, %d live", caught, Part::live.load());
}

// step no_memory(kind: 0 1 2 3 4 5)
void no_memory(long kind) {
    const char *caught = "nothing";
    void *volatile block = nullptr;
    errno = 77;
    try {
        switch (kind) {
        case 0: block = ::operator new(huge); break;
        case 1: block = ::operator new[](huge, std::align_val_t(64)); break;
        case 2: block = ::operator new(huge, std::nothrow); break;
        case 3: block = new Wide[huge / 4096]; break;
        case 4: block = new char[huge]; break;
        case 5: std::vector<long>(huge / 16).swap(*new std::vector<long>); break;
        }
    } catch (const std::bad_array_new_length &) {
        caught = "bad length";
    } catch (const std::bad_alloc &) {
        caught = "bad alloc";
    } catch (const std::exception &) {
        caught = "another";
    }
    say("no_memory %ld: %s, got %d, errno %d", kind, caught, block != nullptr, errno);
}

// step new_handlers(kind: 0 1, rounds: 1 10)
void new_handlers(long kind, long rounds) {
    int caught = 0, others = 0;
    handled = 0;
    for (long round = 0; round < rounds; round++) {
        std::set_new_handler(kind ? throwing : giving_up);
        try {
            void *volatile block = ::operator new(huge);
            (void)block;
        } catch (int) {
            others++;
        } catch (const std::bad_alloc &) {
            caught++;
        }
    }
    std::set_new_handler(nullptr);
    say("new_handlers: %d caught, %d others, %d handled", caught, others, handled);
}

// step containers(count: 10 2000 1..3000)
void containers(long count) {
    std::map<std::string, std::vector<int>> all;
    for (long each = 0; each < count; each++) all[std::string(each % 50, 'k') + std::to_string(each)].push_back(int(each));
    long sum = 0;
    for (auto &[key, values] : all) sum += long(key.size()) + values[0];
    say("containers: %ld", sum);
}

// step operators(alignment: 32 64 4096, bytes: 1 5000 300000 1..500000)
void operators(long alignment, long bytes) {
    std::align_val_t wide{size_t(alignment)};
    void *blocks[6] = {::operator new(bytes), ::operator new[](bytes), ::operator new(bytes, wide), ::operator new[](bytes, wide),
                       ::operator new(bytes, std::nothrow), ::operator new(bytes, wide, std::nothrow)};
    int good = 0;
    for (int each = 0; each < 6; each++)
        good += blocks[each] && (each < 2 || each == 4 || reinterpret_cast<size_t>(blocks[each]) % alignment == 0);
    ::operator delete(blocks[0], size_t(bytes));
    ::operator delete[](blocks[1]);
    ::operator delete(blocks[2], size_t(bytes), wide);
    ::operator delete[](blocks[3], wide);
    ::operator delete(blocks[4], std::nothrow);
    ::operator delete(blocks[5], wide, std::nothrow);
    say("operators: %d good", good);
}

// step thread_with_exception(count: 1 8) not in under_memory_limit
void thread_with_exception(long count) {
    std::vector<std::thread> all;
    std::vector<std::exception_ptr> errors(count);
    for (long each = 0; each < count; each++)
        all.emplace_back([&errors, each] {
            try {
                thread_local std::string kept(100000, 'y');
                Whole whole(10000 + long(kept.size()), true);
            } catch (...) {
                errors[each] = std::current_exception();
            }
        });
    int caught = 0;
    for (auto &thread : all) thread.join();
    for (auto &error : errors) {
        try {
            if (error) std::rethrow_exception(error);
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    say("thread_with_exception: %d caught, %d live", caught, Part::live.load());
}

// around in_try(bytes: 100 100000 1..300000)
void in_try(body inner, long bytes) {
    try {
        Part part(bytes);
        inner();
        throw std::string(bytes, 'z');
    } catch (const std::string &text) {
        say("in_try: %zu, %d live", text.size(), Part::live.load());
    }
}

// end throws_out(unused: 0)
void throws_out(long unused) {
    (void)unused;
    throw std::runtime_error("nobody catches it");
}
}
