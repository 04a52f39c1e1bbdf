// C++'s library: memory resources, coroutines, data of each thread, tasks, streams, exceptions in unusual places.
#include "guest.h"
#include <pthread.h>
#include <dlfcn.h>
#include <atomic>
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <forward_list>
#include <functional>
#include <future>
#include <list>
#include <locale>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {
struct At_start {
    std::vector<std::string> all;
    At_start() : all(200, std::string(500, 's')) {}
} at_start;

template <class Container> long filled(Container container, long count, long bytes) {
    long sum = 0;
    for (long each = 0; each < count; each++) container.emplace_back(1 + (each * 37) % bytes, 'c');
    for (auto &text : container) sum += long(text.size());
    return sum;
}

struct Task {
    struct promise_type {
        long value = 0;
        Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(long given) { return value = given, std::suspend_always{}; }
        void return_void() {}
        void unhandled_exception() { value = -1; }
    };
    std::coroutine_handle<promise_type> handle;
};

Task values(long count, long bytes) {
    std::string held(bytes, 'h');
    for (long each = 0; each < count; each++) co_yield each + long(held.size());
    if (count % 2) throw std::runtime_error("odd");
}

struct alignas(256) Wide { char room[600]; };

struct Own {
    static std::atomic<int> live;
    char room[300];
    static void *operator new(size_t bytes) { return live++, std::malloc(bytes); }
    static void operator delete(void *block) { live--, std::free(block); }
};
std::atomic<int> Own::live;

std::atomic<int> ended;
struct At_end {
    std::string text = std::string(20000, 'e');
    ~At_end() {
        std::vector<char> more(text.size() * 4);
        ended++;
    }
};
thread_local At_end at_end;
thread_local std::unique_ptr<std::vector<int>> lazy;

struct Unwound {
    std::vector<char> room = std::vector<char>(5000);
    static std::atomic<int> count;
    ~Unwound() { count++; }
};
std::atomic<int> Unwound::count;

void *exits_with_objects(void *) {
    Unwound first;
    std::vector<Unwound> more(3);
    try {
        pthread_exit(nullptr);
    } catch (...) {
        throw;
    }
}

void nested(int depth) {
    try {
        if (depth == 0) throw std::runtime_error(std::string(1000, 'n'));
        nested(depth - 1);
    } catch (...) {
        std::throw_with_nested(std::logic_error("level " + std::to_string(depth)));
    }
}

int levels(const std::exception &error) {
    try {
        std::rethrow_if_nested(error);
    } catch (const std::exception &inner) {
        return 1 + levels(inner);
    }
    return 1;
}

int throwing_order(const void *left, const void *right) {
    if (*static_cast<const int *>(left) == 13) throw std::string(3000, 'q');
    return *static_cast<const int *>(left) - *static_cast<const int *>(right);
}
} // namespace

extern "C" {
// step resources(kind: 0 1 2 3, count: 1..500, bytes: 1..3000)
void resources(long kind, long count, long bytes) {
    long sum = 0;
    std::pmr::monotonic_buffer_resource buffer(1000);
    std::pmr::unsynchronized_pool_resource pool(&buffer);
    std::pmr::synchronized_pool_resource shared;
    std::pmr::memory_resource *all[] = {&buffer, &pool, &shared, std::pmr::new_delete_resource()};
    std::pmr::vector<std::pmr::string> texts(all[kind]);
    for (long each = 0; each < count; each++) texts.emplace_back(1 + each % bytes, 'p');
    for (auto &text : texts) sum += long(text.size());
    say("resources: %ld", sum);
}

// step more_containers(kind: 0 1 2 3, count: 1..1000, bytes: 1..2000)
void more_containers(long kind, long count, long bytes) {
    long sum = 0;
    std::unordered_map<std::string, std::shared_ptr<std::string>> map;
    switch (kind) {
    case 0: sum = filled(std::vector<std::string>(), count, bytes); break;
    case 1: sum = filled(std::list<std::string>(), count, bytes); break;
    case 2:
        for (long each = 0; each < count; each++) map[std::to_string(each % 97)] = std::make_shared<std::string>(bytes, 'm');
        sum = long(map.size());
        break;
    default:
        std::vector<Wide> wide(count);
        auto one = std::make_unique<Wide>();
        sum = reinterpret_cast<size_t>(wide.data()) % 256 == 0 && reinterpret_cast<size_t>(one.get()) % 256 == 0;
    }
    say("more_containers: %ld", sum);
}

// step coroutines(count: 1..50, bytes: 1..100000)
void coroutines(long count, long bytes) {
    std::vector<Task> all;
    long sum = 0;
    for (int each = 0; each < 5; each++) all.push_back(values(count + each, bytes));
    for (bool is_any = true; is_any;) {
        is_any = false;
        for (auto &task : all) {
            if (task.handle.done()) continue;
            task.handle.resume();
            sum += task.handle.promise().value;
            is_any = true;
        }
    }
    for (auto &task : all) task.handle.destroy();
    say("coroutines: %ld", sum);
}

// step thread_objects(threads: 1..8) not in under_memory_limit locked
void thread_objects(long threads) {
    ended = 0;
    std::vector<std::thread> all;
    std::atomic<long> sum = 0;
    for (long each = 0; each < threads; each++)
        all.emplace_back([&sum, each] {
            lazy = std::make_unique<std::vector<int>>(1000 * (each + 1));
            sum += long(lazy->size() + at_end.text.size());
        });
    for (auto &thread : all) thread.join();
    say("thread_objects: %ld, %d ended", sum.load(), ended.load());
}

// step tasks(count: 1..12, bytes: 1..100000) not in under_memory_limit locked
void tasks(long count, long bytes) {
    std::vector<std::future<std::string>> all;
    std::once_flag once;
    long sum = 0, failed = 0;
    for (long each = 0; each < count; each++)
        all.push_back(std::async(each % 3 ? std::launch::async : std::launch::deferred, [&once, each, bytes] {
            std::call_once(once, [bytes] { std::string(bytes, 'o'); });
            if (each % 4 == 3) throw std::runtime_error(std::string(bytes, 'f'));
            return std::string(bytes, 'a');
        }));
    for (auto &each : all) {
        try {
            sum += long(each.get().size());
        } catch (const std::runtime_error &) {
            failed++;
        }
    }
    say("tasks: %ld, %ld failed", sum, failed);
}

// step texts(kind: 0 1 2 3, count: 1..100)
void texts(long kind, long count) {
    std::ostringstream out;
    long sum = 0;
    for (long each = 0; each < count; each++) out << each << ' ' << each / 7.0 << '\n';
    std::string text = out.str();
    if (kind == 0) {
        std::istringstream in(text);
        double value;
        while (in >> value) sum++;
    } else if (kind == 1) {
        std::regex pattern("([0-9]+) ([0-9.]+)\n");
        sum = std::distance(std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator());
    } else if (kind == 2) {
        std::locale own(std::locale::classic(), new std::numpunct<char>);
        out.imbue(own);
        out << 12345.5;
        sum = long(out.str().size());
    } else {
        std::error_code error;
        for (auto &entry : std::filesystem::directory_iterator("/usr", error)) sum += !entry.path().filename().empty();
        sum = sum > 0;
    }
    say("texts: %ld", sum);
}

// step own_class(count: 1..300)
void own_class(long count) {
    std::vector<std::unique_ptr<Own>> all;
    for (long each = 0; each < count; each++) all.push_back(std::make_unique<Own>());
    int most = Own::live;
    all.clear();
    say("own_class: %d, then %d; %zu at the start", most, Own::live.load(), at_start.all.size());
}

// step unwound(threads: 1..5) not in under_memory_limit locked
void unwound(long threads) {
    Unwound::count = 0;
    for (long each = 0; each < threads; each++) {
        pthread_t made;
        if (pthread_create(&made, nullptr, exits_with_objects, nullptr) == 0) pthread_join(made, nullptr);
    }
    say("unwound: %d", Unwound::count.load());
}

// step nested_exceptions(depth: 1..60)
void nested_exceptions(long depth) {
    int found = 0;
    try {
        nested(int(depth));
    } catch (const std::exception &error) {
        found = levels(error);
    }
    say("nested_exceptions: %d", found);
}

// Through frames of C that know nothing of exceptions: the element is lost, the program continues.
// step thrown_through_c(count: 20..500)
void thrown_through_c(long count) {
    std::vector<int> all(count);
    for (long each = 0; each < count; each++) all[each] = int(each % 20);
    size_t caught = 0;
    try {
        bsearch(&all[13], all.data(), all.size(), sizeof(int), throwing_order);
    } catch (const std::string &text) {
        caught = text.size();
    }
    say("thrown_through_c: %zu", caught);
}

// step thrown_by_plugin(kind: 0 1 2 3, rounds: 1..5, bytes: 1..50000)
void thrown_by_plugin(long kind, long rounds, long bytes) {
    const char *folder = getenv("GUEST_PLUGINS");
    std::string path = std::string(folder ? folder : ".") + "/throwing.so";
    std::vector<std::exception_ptr> kept;
    size_t caught = 0;
    for (long round = 0; round < rounds; round++) {
        void *handle = dlopen(path.c_str(), RTLD_NOW);
        auto throws = handle ? reinterpret_cast<void (*)(long, long)>(dlsym(handle, "throwing")) : nullptr;
        auto through = handle ? reinterpret_cast<void (*)(void (*)(long), long)>(dlsym(handle, "through")) : nullptr;
        if (!throws || !through) break;
        try {
            throws(kind, bytes);
        } catch (const std::exception &error) {
            caught++;
            kept.push_back(std::current_exception());
        } catch (int number) {
            caught += number;
        }
        try {
            through([](long value) { throw value; }, round);
        } catch (long value) {
            caught += size_t(value);
        }
        dlclose(handle);
    }
    say("thrown_by_plugin: %zu, %zu kept", caught, kept.size());
}

// end terminates(kind: 0 1 2)
void terminates(long kind) {
    std::set_terminate([] {
        std::string last(100000, 'l');
        say("terminates: %zu", last.size());
        std::abort();
    });
    struct Throws {
        std::string text = std::string(1000, 't');
        ~Throws() noexcept(false) { throw 1; }
    };
    if (kind == 0) [] () noexcept { throw std::string(1000, 'x'); }();
    if (kind == 1) {
        Throws first;
        throw 2;
    }
    std::thread([] { throw std::runtime_error("in a thread"); }).join();
}
}
