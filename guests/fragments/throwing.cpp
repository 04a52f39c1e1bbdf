// A plugin that throws: its exceptions are caught outside, and may be kept longer than it.
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {
std::vector<std::string> kept_all(100, std::string(300, 'k'));
thread_local std::unique_ptr<std::string> kept;
} // namespace

extern "C" void throwing(long kind, long bytes) {
    kept = std::make_unique<std::string>(bytes, 't');
    std::vector<char> room(bytes);
    switch (kind) {
    case 0: throw std::runtime_error(std::string(bytes, 'r'));
    case 1: throw std::bad_alloc();
    case 2: throw 42;
    default: room.at(bytes + 1) = 1;
    }
}

extern "C" void through(void (*inner)(long), long value) {
    std::string held(500, 'h');
    inner(value + long(held.size()));
}
