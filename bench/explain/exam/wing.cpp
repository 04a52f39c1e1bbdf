// A plugin, in C++, and its host. Names say nothing of what is done.
#ifdef PLUGIN
#include <string>
#include <vector>
struct Feather { std::string barb; std::vector<int> down; };
static Feather *volatile perch;
extern "C" __attribute__((visibility("default"))) void flap(int n) {
    auto *feather = new Feather{std::string(90 + n % 20, 'f'), std::vector<int>(150, n)};
    perch = feather;
    if (n < 0) delete feather;
}
#else
#include <chrono>
#include <dlfcn.h>
#include <thread>
int main(int, char **words) {
    for (int n = 0;; n++) {
        static void *wing = nullptr;
        if (n % 2000 == 100) { if (wing) dlclose(wing); wing = dlopen(words[1], RTLD_NOW | RTLD_LOCAL); if (!wing) return 3; }
        if (wing) reinterpret_cast<void (*)(int)>(dlsym(wing, "flap"))(n);
        delete[] new char[500 + n % 900];
        if (n % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
}
#endif
