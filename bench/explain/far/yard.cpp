// A yard in C++: an index that rehashes as it fills, failures that are kept, a tree whose sons hold their father.
#include <chrono>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
using namespace std;
static unordered_map<string, long> words;
__attribute__((noinline)) static void index_word(long n) { words["a word of the index, number " + to_string(n)] += n; }
static vector<exception_ptr> failures;
__attribute__((noinline)) static void note_failure(long n) {
    try { throw runtime_error("order " + to_string(n) + " failed: " + string(500, 'x')); } catch (...) { failures.push_back(current_exception()); }
}
struct Branch { shared_ptr<Branch> father; vector<shared_ptr<Branch>> sons; char leaves[200]; };
__attribute__((noinline)) static void plant_tree() {
    auto root = make_shared<Branch>();
    for (int i = 0; i < 3; i++) { root->sons.push_back(make_shared<Branch>()); root->sons.back()->father = root; }
}
int main(int, char **arguments) {
    string what = arguments[1];
    for (long n = 0;; n++) {
        for (int i = 0; i < 12; i++) {
            if (what == "index") index_word(n * 12 + i);
            if (what == "failures" && i % 3 == 0) note_failure(n);
            if (what == "tree" && i % 3 == 0) plant_tree();
            vector<string> passing(20, string(100 + i, 'y'));
        }
        this_thread::sleep_for(chrono::milliseconds(10));
    }
}
