// A guild in C++: members who are never struck from the roll, and vows that hold themselves. The first word: which.
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#define SEPARATE __attribute__((noinline))

static std::map<std::string, std::vector<std::string>> roll;
SEPARATE static void enrol(int n) { auto &dues = roll["member " + std::to_string(n)]; for (int i = 0; i < 6; i++) dues.push_back(std::string(80 + i, 'd')); }
SEPARATE static void strike(int n) { roll.erase("member" + std::to_string(n)); }

struct Vow { std::function<int()> words; std::string seal = std::string(1200, 's'); };
SEPARATE static void swear(int n) { auto vow = std::make_shared<Vow>(); vow->words = [vow, n] { return n + static_cast<int>(vow->seal.size()); }; vow->words(); }

struct Chronicle { std::pmr::monotonic_buffer_resource ink{4096}; std::pmr::vector<std::pmr::string> lines{&ink}; };
SEPARATE static void inscribe(Chronicle &book, int n) { book.lines.clear(); for (int i = 0; i < 20; i++) book.lines.emplace_back(std::string(60 + (n + i) % 30, 'i')); }

struct Row { char cells[800]; };
SEPARATE static int parse_row(int n) { Row *row = new Row(); row->cells[n % 800] = 1; if (n % 3 == 0) throw std::runtime_error("a cell is empty"); int sum = row->cells[5]; delete row; return sum; }

static std::size_t banquet() { std::vector<std::string> dishes; for (int i = 0; i < 50; i++) dishes.push_back(std::string(30 + 12 * i, 'f')); return dishes.size(); }

int main(int count, char **words) {
    std::string what = count > 1 ? words[1] : ""; Chronicle book; int sum = 0;
    for (int n = 0;; n++) {
        if (what == "roll") for (int i = 0; i < 8; i++) { enrol(n * 8 + i); strike(n * 8 + i); }
        if (what == "vows") for (int i = 0; i < 3; i++) swear(n);
        if (what == "chronicle") inscribe(book, n);
        if (what == "rows") for (int i = 0; i < 9; i++) try { sum += parse_row(n * 9 + i); } catch (const std::exception &) { sum--; }
        banquet();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return sum;
}
