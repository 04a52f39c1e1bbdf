// The main thread polls the connections, five workers serve a deque of requests, each of which writes a log line by the
// one logger. The log is a pipe of 4 KiB whose reader pauses 430 ms every 2.7 s. --fault pipe: write() under the
// logger's mutex. Healthy: lines go into a bounded deque, which a thread of its own writes.
#include "../../common/service.h"
#include <condition_variable>
#include <deque>
#include <mutex>
#include <poll.h>
#include <string>
#include <thread>
#include <vector>

class Logger {
    std::mutex mutex;
    std::condition_variable queued;
    std::deque<std::string> lines;

  public:
    int file = -1;

    NOINLINE void write_log_line(const std::string &line) {
        std::lock_guard<std::mutex> guard(mutex);
        write_all(file, line.data(), line.size());
    }

    NOINLINE void queue_log_line(std::string line) {
        std::lock_guard<std::mutex> guard(mutex);
        if (lines.size() < 200)
            lines.push_back(std::move(line));
        queued.notify_one();
    }

    void write_queued_lines() {
        name_thread("log-writer");
        for (;;) {
            std::unique_lock<std::mutex> guard(mutex);
            queued.wait(guard, [&] { return !lines.empty(); });
            std::string line = std::move(lines.front());
            lines.pop_front();
            guard.unlock();
            write_all(file, line.data(), line.size());
        }
    }
};
static Logger logger;

struct Job {
    int fd;
    request asked;
};
static std::mutex jobs_mutex;
static std::condition_variable jobs_filled;
static std::deque<Job> jobs;

NOINLINE void handle_job(const Job &job) {
    burn_us(settings.work_us);
    char line[260];
    memset(line, '.', sizeof line);
    snprintf(line, 80, "request %llu of connection %d", (unsigned long long)job.asked.id, job.fd);
    line[sizeof line - 1] = '\n';
    if (is_variant("pipe"))
        logger.write_log_line(std::string(line, sizeof line));
    else
        logger.queue_log_line(std::string(line, sizeof line));
    send_answer(job.fd, &job.asked);
}

static void work() {
    name_thread("worker");
    for (;;) {
        std::unique_lock<std::mutex> guard(jobs_mutex);
        jobs_filled.wait(guard, [] { return !jobs.empty(); });
        Job job = jobs.front();
        jobs.pop_front();
        guard.unlock();
        handle_job(job);
    }
}

static void start_log_reader() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        exit(1);
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    const char *arguments[] = {"load", "slow-reader", "430", "2700", 0};
    start_helper(arguments, 1, ends);
    close(ends[0]);
    logger.file = ends[1];
}

static void serve_polled(int listener) {
    std::vector<pollfd> polled{{listener, POLLIN, 0}};
    for (;;) {
        poll(polled.data(), polled.size(), -1);
        for (size_t i = polled.size(); i-- > 0;) {
            request request;
            if (!polled[i].revents)
                continue;
            if (i == 0) {
                polled.push_back({accept_connection(listener), POLLIN, 0});
            } else if (read_request(polled[i].fd, &request)) {
                std::lock_guard<std::mutex> guard(jobs_mutex);
                jobs.push_back({polled[i].fd, request});
                jobs_filled.notify_one();
            } else {
                close(polled[i].fd);
                polled.erase(polled.begin() + i);
            }
        }
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 160, 250, 12);
    int listener = listen_on(settings.port);
    start_log_reader();
    for (int i = 0; i < 5; i++)
        std::thread(work).detach();
    if (!is_variant("pipe"))
        std::thread([] { logger.write_queued_lines(); }).detach();
    start_load("keep", 0, 0);
    serve_polled(listener);
}
