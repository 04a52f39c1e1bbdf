// Requests come by a pipe, not a socket. Five mills share one pipe of work; each asks one lookup stage by pipes of its
// own, then counts under a pthread mutex. --fault stage: every 2.5 s the lookup stage reads 150 ms from a cold file.
// --fault rescan: a thread reads so with the mutex. Healthy: the thread reads without it.
#include "../../common/service.h"

enum { MILLS = 5, BLOCK = 65536, CATALOG_MIB = 64 };
struct lookup {
    int mill;
    uint64_t id;
};
static int requests[2], answers[2], work[2], lookups[2], found[MILLS][2], catalog_file;
static pthread_mutex_t catalog = PTHREAD_MUTEX_INITIALIZER;
static char stage_block[BLOCK], rescan_block[BLOCK];
static uint64_t sum;

NOINLINE uint64_t lookup_catalog(double ms) {
    uint64_t read = read_cold_for_ms(catalog_file, ms, stage_block, BLOCK, CATALOG_MIB << 20);
    sum += read;
    return read + 1;
}

NOINLINE uint64_t rescan_catalog(double ms) {
    uint64_t read = read_cold_for_ms(catalog_file, ms, rescan_block, BLOCK, CATALOG_MIB << 20);
    sum += read;
    return read + 1;
}

static void *run_lookup_stage(void *unused) {
    name_thread("lookup-stage");
    double next = now_s() + 3;
    struct lookup lookup;
    while (read_all(lookups[0], &lookup, sizeof lookup)) {
        burn_us(80);
        if (is_variant("stage") && now_s() > next) {
            lookup_catalog(150);
            next = now_s() + 2.5;
        }
        write_all(found[lookup.mill][1], &lookup, sizeof lookup);
    }
    return unused;
}

static void *run_mill(void *argument) {
    int mill = (long)argument;
    name_thread("mill");
    struct request request;
    while (read_request(work[0], &request)) {
        struct lookup lookup = {mill, request.id};
        write_all(lookups[1], &lookup, sizeof lookup);
        read_all(found[mill][0], &lookup, sizeof lookup);
        pthread_mutex_lock(&catalog);
        burn_us(50);
        sum++;
        pthread_mutex_unlock(&catalog);
        burn_us(settings.work_us);
        send_answer(answers[1], &request);
    }
    return 0;
}

static void *rescan_catalogs(void *unused) {
    name_thread("catalog-rescan");
    for (;;) {
        sleep_ms(2600);
        if (is_variant("rescan")) {
            pthread_mutex_lock(&catalog);
            rescan_catalog(150);
            pthread_mutex_unlock(&catalog);
        } else if (is_variant("none")) {
            rescan_catalog(150);
        }
    }
    return unused;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 180, 300, 1);
    make_big_file("catalog", CATALOG_MIB);
    catalog_file = open_file("catalog", O_RDONLY);
    if (pipe(requests) || pipe(answers) || pipe(work) || pipe(lookups))
        return 1;
    for (int i = 0; i < MILLS; i++)
        if (pipe(found[i]))
            return 1;
    int client_ends[2] = {requests[1], answers[0]};
    start_load("pipe", 2, client_ends);
    close(requests[1]);
    close(answers[0]);
    for (long i = 0; i < MILLS; i++)
        start_thread(run_mill, (void *)i);
    start_thread(run_lookup_stage, 0);
    start_thread(rescan_catalogs, 0);
    name_thread("intake");
    struct request request;
    while (read_request(requests[0], &request))
        send_answer(work[1], &request);
}
