// pier MODE: what C++ programs forget, beside 2,000 requests a second whose memory is freed.
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
#define OUT __attribute__((noinline))

static unsigned state = 20261123;
static unsigned chance(unsigned n) { return (state = state * 1664525u + 1013904223u) / 65536u % n; }
static volatile size_t seen;

OUT void serve() {
    std::vector<std::string> words;
    for (int i = 0; i < 10; i++) words.emplace_back(20 + chance(300), 'w');
    seen = words.back().size();
}

// Deleted by way of a base without a virtual destructor.
struct Cargo { int weight = 1; };
struct Crate : Cargo {
    std::string label;
    std::vector<int> items;
    Crate(unsigned n) : label(200 + n % 100, 'c'), items(50) {}
};
OUT Cargo *load_crate(unsigned n) { return new Crate(n); }
OUT void unload(Cargo *cargo) { seen = cargo->weight; delete cargo; }

// What failed is remembered with its exception.
static std::vector<std::exception_ptr> failures;
struct Broken : std::exception { char text[900]; Broken() { memset(text, 'b', sizeof text); } };
OUT void note_failure() {
    try { throw Broken(); } catch (...) { failures.push_back(std::current_exception()); }
}

// More jobs come in than are done.
struct Job { std::string order; };
static std::deque<std::unique_ptr<Job>> jobs;
static std::mutex door;
OUT void enqueue_job() {
    auto job = std::make_unique<Job>();
    job->order.assign(300 + chance(200), 'o');
    std::lock_guard<std::mutex> guard(door);
    jobs.push_back(std::move(job));
}
static void work() {
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
        std::lock_guard<std::mutex> guard(door);
        for (int i = 0; i < 5 && !jobs.empty(); i++) jobs.pop_front();
    }
}

// Visitors are never forgotten.
static std::unordered_map<unsigned, std::string> visitors;
OUT void remember_visitor(unsigned n) { visitors.emplace(n, std::string(120, 'v')); }

// Sessions of an hour: none ends while anybody looks; of each a third of the parts is let go after its greeting.
struct Session { std::list<std::string> parts; };
static std::vector<std::unique_ptr<Session>> sessions;
OUT void greet_session() {
    auto session = std::make_unique<Session>();
    for (int i = 0; i < 12; i++) session->parts.emplace_back(60 + chance(60), 's');
    for (int i = 0; i < 4; i++) session->parts.pop_front();
    sessions.push_back(std::move(session));
}

int main(int argc, char **argv) {
    std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "backlog") std::thread(work).detach();
    for (unsigned turn = 0;; turn++) {
        for (int i = 0; i < 20; i++) serve();
        if (mode == "novirtual") for (int i = 0; i < 2; i++) unload(load_crate(turn));
        if (mode == "failures") note_failure();
        if (mode == "backlog") for (int i = 0; i < 8; i++) enqueue_job();
        if (mode == "visitors") for (unsigned i = 0; i < 6; i++) remember_visitor(turn * 6 + i);
        if (mode == "sessions") greet_session();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}
