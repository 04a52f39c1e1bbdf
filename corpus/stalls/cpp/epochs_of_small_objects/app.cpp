// A list of small objects under a std::mutex and a table under a std::shared_mutex; requests write to both. --fault
// free: every ~2.5 s a housekeeper frees 1,000,000 objects of a finished epoch with the mutex. --fault statistics:
// every ~2.7 s it walks the table of 600,000 rows with the SHARED lock, and requests want it exclusively. Healthy, in
// turn: it takes the list out under the mutex and frees it afterwards; it walks a table of its own.
#include "../../common/service.h"
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

struct Object {
    uint64_t key;
    std::string tag;
    std::unique_ptr<uint64_t[]> words;

    Object(uint64_t i) : key(i), tag(40, 'a' + i % 26), words(new uint64_t[6]) { words[0] = i; }
};
typedef std::map<uint64_t, uint64_t> Table;
static const uint64_t OBJECTS = 1000000, ROWS = 600000;
static std::mutex epoch_mutex;
static std::shared_mutex table_mutex;
static std::list<Object> epoch;
static Table table, own_table;

NOINLINE void drop_objects(std::list<Object> &objects) {
    while (!objects.empty())
        objects.pop_back();
    use_result(1);
}

NOINLINE void close_epoch() {
    std::list<Object> finished;
    {
        std::lock_guard<std::mutex> guard(epoch_mutex);
        if (is_variant("free"))
            drop_objects(epoch);
        else
            finished.splice(finished.begin(), epoch);
    }
    drop_objects(finished);
}

NOINLINE void fill_epoch() {
    for (uint64_t i = 0; i < OBJECTS;) {
        std::list<Object> some;
        for (int j = 0; j < 200; j++, i++)
            some.emplace_back(i);
        {
            std::lock_guard<std::mutex> guard(epoch_mutex);
            epoch.splice(epoch.begin(), some);
        }
        if (i % 10000 == 0)
            sleep_ms(10);
    }
}

NOINLINE void sum_table_rows(const Table &rows) {
    uint64_t sum = 0;
    for (int i = 0; i < 2; i++)
        for (auto &row : rows)
            sum += row.first ^ row.second;
    use_result(sum);
}

NOINLINE void collect_statistics() {
    if (is_variant("statistics")) {
        std::shared_lock<std::shared_mutex> guard(table_mutex);
        sum_table_rows(table);
    } else {
        sum_table_rows(own_table);
    }
    use_result(1);
}

NOINLINE void update_row(uint64_t id) {
    {
        std::lock_guard<std::mutex> guard(epoch_mutex);
        if (!epoch.empty())
            epoch.front().words[1] += id;
    }
    std::unique_lock<std::shared_mutex> guard(table_mutex);
    table[id % ROWS] += id;
}

static void handle_request(uint64_t id) {
    burn_us(settings.work_us);
    update_row(id);
}

static void keep_house() {
    name_thread("housekeeper");
    for (int turn = 0;; turn++) {
        if (is_variant("free") || (is_variant("none") && turn % 2)) {
            fill_epoch();
            sleep_ms(700);
            close_epoch();
        } else {
            sleep_ms(2500);
            collect_statistics();
        }
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 160, 200, 10);
    int listener = listen_on(settings.port);
    bool healthy = is_variant("none");
    for (uint64_t i = 0; i < ROWS; i++)
        (healthy ? own_table : table)[i * 7919 % 600011] = i;
    for (uint64_t i = 0; healthy && i < ROWS; i += 7)
        table[i] = i;
    std::thread(keep_house).detach();
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", handle_request);
}
