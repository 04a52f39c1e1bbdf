// A service with one collection that only grows. The mode says which; with a second argument it is bounded and full
// before the service is ready (healthy).
#include "../common.h"
#include <any>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

static size_t bound = 400000;

static std::unordered_map<std::string, std::vector<long>> metrics;

NOINLINE static void record_metric(int n) {
    metrics["requests{user=\"" + std::to_string(n % bound) + "\",path=\"/api/v1/things\"}"].resize(40, n);
}

// An exception that is kept is in libstdc++'s own memory.
struct Failed : std::exception {
    char text[900];
    Failed() { memset(text, 'f', sizeof text); }
};
static std::vector<std::exception_ptr> failures;

NOINLINE static void note_failure(int) {
    try {
        throw Failed();
    } catch (...) {
        failures.push_back(std::current_exception());
    }
}

static std::vector<std::function<size_t()>> handlers;

NOINLINE static void register_handler(int) {
    std::string context(300, 'c');
    handlers.push_back([context] { return context.size(); });
}

// Three jobs come, two are done.
static std::deque<std::unique_ptr<std::string>> jobs;
static std::mutex jobs_lock;

NOINLINE static void enqueue_job(int) {
    auto job = std::make_unique<std::string>(300 + rnd() % 200, 'j');
    std::lock_guard<std::mutex> guard(jobs_lock);
    jobs.push_back(std::move(job));
}

static void work_on_jobs() {
    for (;; nap(20)) {
        std::lock_guard<std::mutex> guard(jobs_lock);
        for (int i = 0; i < 5 && !jobs.empty(); i++)
            jobs.pop_front();
    }
}

// Sessions of an hour; of each a third of the parts goes after the start.
static std::vector<std::unique_ptr<std::list<std::string>>> sessions;

NOINLINE static void greet_session(int) {
    auto parts = std::make_unique<std::list<std::string>>();
    for (int i = 0; i < 12; i++)
        parts->emplace_back(60 + rnd() % 60, 's');
    for (int i = 0; i < 4; i++)
        parts->pop_front();
    sessions.push_back(std::move(parts));
}

static std::map<long, std::shared_ptr<std::vector<long>>> rows;

NOINLINE static void store_row(int n) {
    rows[n] = std::make_shared<std::vector<long>>(20 + rnd() % 150, n);
    if (rows.size() > bound)
        rows.erase(rows.begin());
}

static std::vector<std::any> values;

NOINLINE static void store_value(int n) {
    values.resize(bound);
    if (n % 2)
        values[n % bound] = std::vector<char>(200 + rnd() % 1000, 'v');
    else
        values[n % bound] = std::string(200 + rnd() % 1000, 'v');
}

// A table of sessions is dropped every nine seconds.
NOINLINE static void touch_session(int n) {
    static std::unordered_map<std::string, std::string> table;
    if (n % 3600 == 0)
        table = {};
    table["session-" + std::to_string(n)] = std::string(180, 'u');
}

int main(int argc, char **argv) {
    const std::map<std::string, void (*)(int)> modes = {
        {"map_of_labels", record_metric}, {"kept_exceptions", note_failure}, {"handlers", register_handler},
        {"queue", enqueue_job},           {"sessions", greet_session},       {"map_of_shared_rows", store_row},
        {"any_values", store_value},      {"emptied_every_9_s", touch_session}};
    auto mode = modes.find(argc > 1 ? argv[1] : "");
    if (mode == modes.end())
        return 2;
    int n = 0;
    if (argc > 2)
        for (bound = 4000; n < 8000; n++)
            mode->second(n);
    if (mode->first == "queue")
        std::thread(work_on_jobs).detach();
    ready();
    for (;; n++) {
        mode->second(n);
        serve_requests(10);
        if (n % 8 == 0)
            nap(20);
    }
}
