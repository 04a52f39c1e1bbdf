// An office in C++ with one thing wrong; the first word: which.
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct Letter { std::string text; std::vector<int> stamps; };
static std::unique_ptr<Letter> write_letter(int n) {
    auto letter = std::make_unique<Letter>();
    letter->text = "a letter about the matter of " + std::to_string(n) + std::string(100, '.');
    letter->stamps.assign(50, n);
    return letter;
}
static void *volatile sink;
[[gnu::noinline]] static void lose(void *p) { sink = p; sink = nullptr; }

[[gnu::noinline]] static void copy_title(int n) { lose(new std::string("the title of the letter with the number " + std::to_string(n))); }
[[gnu::noinline]] static void build_index(int n) {
    auto *index = new std::map<int, std::string>;
    for (int i = 0; i < 12; i++) (*index)[n + i] = "an entry of the index that is longer than short " + std::to_string(i);
    if (n % 4) delete index; else lose(index);
}
struct Clerk { std::shared_ptr<Clerk> colleague; char desk[200]; };
[[gnu::noinline]] static void hire_pair(int n) {
    auto a = std::make_shared<Clerk>(), b = std::make_shared<Clerk>();
    std::memset(a->desk, n, sizeof a->desk);
    a->colleague = b;
    b->colleague = a;
}
static std::map<int, std::unique_ptr<Letter>> archive;
[[gnu::noinline]] static void file_letter(int n) { archive[n] = write_letter(n); }

int main(int count, char **words) {
    std::string which = count > 1 ? words[1] : "queue";
    std::deque<std::unique_ptr<Letter>> queue;
    for (int n = 0;; n++) {
        for (int i = 0; i < 30; i++) queue.push_back(write_letter(n));
        while (queue.size() > 300) queue.pop_front();
        if (which == "string") for (int i = 0; i < 10; i++) copy_title(n + i);
        if (which == "map") for (int i = 0; i < 4; i++) build_index(n * 4 + i);
        if (which == "cycle") for (int i = 0; i < 4; i++) hire_pair(n);
        if (which == "archive") for (int i = 0; i < 5; i++) file_letter(n * 5 + i);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}
