// The other processes of a service: its client, its peers, and load on the machine. All end when their parent does.
//
//   load MODE PORT CONNECTIONS RATE BURST SECONDS TRUTH   the client; MODE is one of
//        keep      each connection is kept for all of its requests
//        connect   a new connection for each request
//        datagram  the same over UDP
//        pipe      requests go out on descriptor 3, answers come in on descriptor 4, in any order (PORT is ignored)
//        report    makes no requests: on descriptor 3 the service reports those that it made itself. id is the start in
//                  microseconds of CLOCK_MONOTONIC, and pause_ms is how many microseconds it took
//        RATE is requests a second, of all connections together; with BURST 1 all connections send at the same instant.
//        A PORT with a slash in it is the path of a Unix socket. TRUTH is the file for what the requests took, or "".
//   load peer PORT                        answers each request after its pause_ms; keeps idle connections
//   load http-peer PORT                   HTTP/1.1; answers after the milliseconds of the header X-Hold
//   load udp-peer PORT                    answers each datagram, one at a time, after its pause_ms
//   load hog SECONDS                      uses a CPU
//   load slow-reader PAUSE_MS EVERY_MS    reads descriptor 3, except for a pause now and then
//   load lock-holder FILE HOLD_MS EVERY_MS   holds flock() on FILE over many small fsyncs of another file
//
// A request and its answer are the same 16 bytes on the wire: struct request of service.h.
#include "service.h"
#include <poll.h>
#include <sys/file.h>

enum { MOST_REQUESTS = 2000000, MOST_SLOW = 4000 };
static const double WARM_UP_S = 1.5, SLOW_S = 0.020;
static pid_t parent;
static const char *mode, *where, *truth;
static int connections, rate, burst, seconds;
static double started_s;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static double *took_ms;
static long requests, errors;
static double slow[MOST_SLOW][2];
static int slow_count;
static volatile sig_atomic_t stopped;

static bool orphaned(void) {
    return getppid() != parent;
}

static void note_request(double start_s, double end_s) {
    if (start_s - started_s < WARM_UP_S)
        return;
    pthread_mutex_lock(&mutex);
    if (requests < MOST_REQUESTS)
        took_ms[requests++] = (end_s - start_s) * 1e3;
    if (end_s - start_s > SLOW_S && slow_count < MOST_SLOW) {
        slow[slow_count][0] = start_s;
        slow[slow_count++][1] = (end_s - start_s) * 1e3;
    }
    pthread_mutex_unlock(&mutex);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void write_truth(FILE *file) {
    fprintf(file, "{\"n\":%ld,\"p50_ms\":%.2f,\"p99_ms\":%.2f,\"max_ms\":%.1f,\"errors\":%ld,\"slow\":[", requests,
            requests ? took_ms[requests / 2] : 0, requests ? took_ms[requests * 99 / 100] : 0,
            requests ? took_ms[requests - 1] : 0, errors);
    for (int i = 0; i < slow_count; i++)
        fprintf(file, "%s[%.4f,%.1f]", i ? "," : "", slow[i][0], slow[i][1]);
    fprintf(file, "]}\n");
}

static void report_and_exit(void) {
    pthread_mutex_lock(&mutex);
    qsort(took_ms, requests, sizeof *took_ms, by_size);
    FILE *file = *truth ? fopen(truth, "w") : NULL;
    if (file) {
        write_truth(file);
        fclose(file);
    }
    _exit(0);
}

static int connect_to_unix(const char *path) {
    struct sockaddr_un address = unix_address(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
        close(fd);
        return -1;
    }
    return fd;
}

// An answer that is lost is an error after five seconds.
static int connect_by_udp(int port) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {5, 0};
    struct sockaddr_in address = local_address(port);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, sizeof address))
        exit(4);
    return fd;
}

static int connect_to_service(void) {
    if (!strcmp(mode, "datagram"))
        return connect_by_udp(atoi(where));
    return strchr(where, '/') ? connect_to_unix(where) : connect_to(atoi(where));
}

static int connect_patiently(void) {
    for (int i = 0; i < 100 && !orphaned(); i++) {
        int fd = connect_to_service();
        if (fd >= 0)
            return fd;
        sleep_ms(50);
    }
    return -1;
}

// One connection: a request each `step` seconds, give or take; requests that could not be sent in time are left out.
static void *run_client(void *argument) {
    long k = (long)argument;
    bool keep = strcmp(mode, "connect");
    double step = (double)connections / rate, next = started_s + 0.3 + (burst ? 0 : step * k / connections);
    unsigned seed = k + 7;
    uint64_t id = k * 1000003;
    int fd = keep ? connect_patiently() : -1;
    while (!stopped) {
        double jitter = burst ? 0 : step * 0.3 * (rand_r(&seed) / (double)RAND_MAX - 0.5), now = now_s();
        if (next + jitter > now)
            sleep_ms((next + jitter - now) * 1e3);
        next += step;
        for (now = now_s(); next < now;)
            next += step;
        struct request request = {++id, 0};
        double start = now_s();
        if (!keep)
            fd = connect_to_service();
        if (fd >= 0 && send_answer(fd, &request) && read_request(fd, &request)) {
            note_request(start, now_s());
            if (!keep)
                close(fd);
            continue;
        }
        if (orphaned())
            return 0;
        __atomic_add_fetch(&errors, 1, __ATOMIC_RELAXED);
        if (fd >= 0)
            close(fd);
        sleep_ms(100);
        if (keep)
            fd = connect_patiently();
    }
    return 0;
}

// Of a request on a pipe, pause_ms is the time at which it was sent, in microseconds.
static void *read_answers(void *unused) {
    struct request request;
    while (read_request(4, &request))
        note_request(request.pause_ms / 1e6, now_s());
    return unused;
}

static void *write_requests(void *unused) {
    double next = started_s + 0.3;
    for (uint64_t id = 1; !stopped; id++) {
        double now = now_s();
        if (next > now)
            sleep_ms((next - now) * 1e3);
        next += 1.0 / rate;
        if (next < now - 0.5)
            next = now;
        struct request request = {id, (uint64_t)(now_s() * 1e6)};
        if (!send_answer(3, &request))
            break;
    }
    return unused;
}

static void *read_reports(void *unused) {
    struct request report;
    while (read_request(3, &report))
        note_request(report.id / 1e6, (report.id + report.pause_ms) / 1e6);
    return unused;
}

static void stop(int signal_number) {
    (void)signal_number;
    stopped = 1;
}

static void be_client(char **argument) {
    mode = argument[0], where = argument[1], truth = argument[6];
    connections = atoi(argument[2]), rate = atoi(argument[3]), burst = atoi(argument[4]), seconds = atoi(argument[5]);
    took_ms = malloc(MOST_REQUESTS * sizeof *took_ms);
    signal(SIGTERM, stop);
    started_s = now_s();
    if (!strcmp(mode, "pipe")) {
        start_thread(read_answers, 0);
        start_thread(write_requests, 0);
    } else if (!strcmp(mode, "report")) {
        start_thread(read_reports, 0);
    } else {
        for (long i = 0; i < connections; i++)
            start_thread(run_client, (void *)i);
    }
    while (!orphaned() && now_s() - started_s < seconds + 1 && !stopped)
        sleep_ms(50);
    report_and_exit();
}

static void *answer_requests(void *argument) {
    int fd = (long)argument;
    struct request request;
    while (read_request(fd, &request)) {
        sleep_ms(request.pause_ms);
        if (!send_answer(fd, &request))
            break;
    }
    close(fd);
    return 0;
}

// The number after a header's name, or 0.
static int header_number(const char *head, const char *end, const char *name) {
    const char *found = strcasestr(head, name);
    return found && found < end ? atoi(found + strlen(name)) : 0;
}

// Reads one HTTP request: the number of its header X-Hold, or -1 when the connection ended.
static int read_http_request(int fd) {
    char text[8192], rest[4096], *end = 0;
    int size = 0;
    while (!end) {
        int n = size < (int)sizeof text - 1 ? read(fd, text + size, sizeof text - 1 - size) : 0;
        if (n <= 0)
            return -1;
        text[size += n] = 0;
        end = strstr(text, "\r\n\r\n");
    }
    int missing = header_number(text, end, "content-length:") - (size - (int)(end + 4 - text));
    while (missing > 0) {
        int n = read(fd, rest, missing < (int)sizeof rest ? missing : (int)sizeof rest);
        if (n <= 0)
            return -1;
        missing -= n;
    }
    return header_number(text, end, "x-hold:");
}

static void *answer_http(void *argument) {
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    int fd = (long)argument, hold_ms;
    while ((hold_ms = read_http_request(fd)) >= 0) {
        sleep_ms(hold_ms);
        if (!write_all(fd, answer, sizeof answer - 1))
            break;
    }
    close(fd);
    return 0;
}

static void be_peer(int port, void *(*serve)(void *)) {
    name_thread("load-peer");
    struct pollfd listener = {listen_on(port), POLLIN, 0};
    while (!orphaned())
        if (poll(&listener, 1, 1000) == 1)
            pthread_detach(start_thread(serve, (void *)(long)accept_connection(listener.fd)));
}

static void be_udp_peer(int port) {
    name_thread("load-peer");
    struct pollfd socket_ = {socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), POLLIN, 0};
    struct sockaddr_in address = local_address(port);
    if (bind(socket_.fd, (struct sockaddr *)&address, sizeof address))
        exit(4);
    while (!orphaned()) {
        struct request request;
        socklen_t size = sizeof address;
        if (poll(&socket_, 1, 1000) != 1)
            continue;
        if (recvfrom(socket_.fd, &request, sizeof request, 0, (struct sockaddr *)&address, &size) != sizeof request)
            continue;
        sleep_ms(request.pause_ms);
        sendto(socket_.fd, &request, sizeof request, 0, (struct sockaddr *)&address, size);
    }
}

static void be_hog(double seconds_to_run) {
    name_thread("load-hog");
    for (double end = now_s() + seconds_to_run; now_s() < end && !orphaned();)
        burn_us(50000);
}

static void be_slow_reader(double pause_ms, double every_ms) {
    name_thread("load-reader");
    double next = now_s() + every_ms / 1e3;
    static char data[65536];
    while (!orphaned()) {
        if (now_s() > next) {
            sleep_ms(pause_ms);
            next = now_s() + (every_ms - pause_ms) / 1e3;
        }
        struct pollfd pipe_ = {3, POLLIN, 0};
        if (poll(&pipe_, 1, 50) == 1 && read(3, data, sizeof data) <= 0)
            return;
    }
}

static NOINLINE void sync_under_file_lock(int locked, int written, double ms) {
    flock(locked, LOCK_EX);
    use_result(sync_for_ms(written, ms));
    flock(locked, LOCK_UN);
}

static void be_lock_holder(const char *path, double hold_ms, double every_ms) {
    name_thread("load-locker");
    char other[600];
    snprintf(other, sizeof other, "%s.other", path);
    int locked = open(path, O_RDWR), written = open(other, O_RDWR | O_CREAT, 0644);
    while (!orphaned()) {
        sleep_ms(every_ms);
        sync_under_file_lock(locked, written, hold_ms);
    }
}

static bool is_client_mode(const char *word) {
    static const char *const modes[] = {"keep", "connect", "datagram", "pipe", "report"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(word, modes[i]))
            return true;
    return false;
}

int main(int argc, char **argv) {
    const char *role = argc > 2 ? argv[1] : "";
    parent = getppid();
    signal(SIGPIPE, SIG_IGN);
    if (is_client_mode(role) && argc == 8) {
        be_client(argv + 1);
        return 0;
    }
    alarm(125);
    if (!strcmp(role, "peer"))
        be_peer(atoi(argv[2]), answer_requests);
    else if (!strcmp(role, "http-peer"))
        be_peer(atoi(argv[2]), answer_http);
    else if (!strcmp(role, "udp-peer"))
        be_udp_peer(atoi(argv[2]));
    else if (!strcmp(role, "hog"))
        be_hog(atof(argv[2]));
    else if (!strcmp(role, "slow-reader") && argc == 4)
        be_slow_reader(atof(argv[2]), atof(argv[3]));
    else if (!strcmp(role, "lock-holder") && argc == 5)
        be_lock_holder(argv[2], atof(argv[3]), atof(argv[4]));
    else {
        fprintf(stderr, "load: unknown arguments; see the top of load.c\n");
        return 2;
    }
    return 0;
}
