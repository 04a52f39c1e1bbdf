// A service that says how large it is: GET anything answers the metrics that client libraries of Prometheus
// export, read from /proc/self. Its heap grows by a fixed number of KiB a second (0: it stands still), in
// steps of a tenth of a second.
//   exposes PORT START_KIB KIB_PER_SECOND LIFE_SECONDS
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "eats.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static long resident_bytes(void) {
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &size, &resident) != 2) resident = 0;
    if (f) fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

static void answer(int from, double started) {
    char request[4096], body[512], head[256];
    if (read(from, request, sizeof request) <= 0) return;
    int n = snprintf(body, sizeof body,
                     "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %ld\n"
                     "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.2f\n"
                     "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %.3f\n",
                     resident_bytes(), started, clock() / (double)CLOCKS_PER_SEC);
    int m = snprintf(head, sizeof head,
                     "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
                     "Content-Length: %d\r\nConnection: close\r\n\r\n", n);
    if (write(from, head, m) != m || write(from, body, n) != n) return;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    double started = now(), grown = 0, rate = atof(argv[3]), life = atof(argv[4]);
    int yes = 1, at = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(at, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(at, (struct sockaddr *)&own, sizeof own) || listen(at, 16)) return 3;
    eat(atol(argv[2]));
    while (now() - started < life) {
        struct pollfd ready = {.fd = at, .events = POLLIN};
        if (poll(&ready, 1, 100) > 0) {
            int from = accept(at, NULL, NULL);
            if (from >= 0) {
                answer(from, started);
                close(from);
            }
        }
        double due = rate * (now() - started);
        if (due - grown >= 64) {
            eat((long)(due - grown));
            grown = due;
        }
    }
    return 0;
}
