// C++: operator new in its forms, containers, a plugin. The first argument says which.
//   g++ -g -O1 -fno-inline cxx.cpp -ldl -o cxx
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <vector>

struct Session {
    std::string name;
    char body[700];
    explicit Session(int id) : name("session number " + std::to_string(id) + " of this very process") {
        memset(body, id, sizeof body);
    }
};

namespace shop {
struct Desk {
    // The pointer goes out of scope: nobody can delete it.
    __attribute__((noinline)) void open_session(int id) { new Session(id); }
    __attribute__((noinline)) void open_row(int id) {
        auto *row = new double[200];
        row[id % 200] = id;
        __asm__ volatile("" ::"r"(row) : "memory");
    }
};
}  // namespace shop

static void traffic() {
    static std::vector<std::unique_ptr<Session>> live(500);
    for (int i = 0; i < 300; i++) live[rand() % live.size()] = std::make_unique<Session>(i);
}

struct Index {
    std::unordered_map<long, std::string> rows;
    __attribute__((noinline)) void remember(long key) { rows[key] = std::string(900, 'x'); }
};

int main(int count, char **words) {
    std::string which = count > 1 ? words[1] : "";
    shop::Desk desk;
    Index index;
    void (*work)(int) = nullptr;
    if (which == "plugin") {
        void *plugin = dlopen(words[2], RTLD_NOW);
        if (!plugin) { fprintf(stderr, "%s\n", dlerror()); return 1; }
        work = reinterpret_cast<void (*)(int)>(dlsym(plugin, "plugin_work"));
    }
    for (long round = 0;; round++) {
        traffic();
        for (int i = 0; i < 20; i++) {
            if (which == "new") desk.open_session(i);
            if (which == "array") desk.open_row(i);
            if (which == "map") index.remember(round * 20 + i);
            if (work) work(i);
        }
        usleep(20000);
    }
}
