// A cloister in C++: walks that lead back into themselves, and names that are forgotten. The first word: which.
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
#define SEPARATE __attribute__((noinline))

struct Walk : std::enable_shared_from_this<Walk> {
    std::unordered_map<std::string, std::shared_ptr<Walk>> gates;
    std::function<void()> bell;
    std::string stones = std::string(900, 's');
};
// Each walk has a gate to the next one and a bell that holds the walk.
SEPARATE static void lay_walk(int n) {
    auto one = std::make_shared<Walk>(), other = std::make_shared<Walk>();
    one->gates["the northern gate of walk " + std::to_string(n)] = other;
    other->gates["the southern gate of walk " + std::to_string(n)] = one;
    one->bell = [one] { one->stones.clear(); };
}

SEPARATE static void spell_name(int n) {
    auto *volatile name = new std::string("brother number " + std::to_string(n) + std::string(700, 'o'));
    *name += "of the cloister";
}

static std::size_t pray() {
    std::vector<std::string> words;
    for (int i = 0; i < 40; i++) words.push_back(std::string(20 + 15 * i, 'a'));
    return words.size();
}

int main(int count, char **words) {
    std::string what = count > 1 ? words[1] : "";
    for (int n = 0;; n++) {
        if (what == "walks") lay_walk(n);
        else for (int i = 0; i < 3; i++) spell_name(n);
        pray();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}
