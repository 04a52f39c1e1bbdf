// A server with a short thread for each visit; what the thread keeps for itself is not freed when it ends. Mode
// thread_key: 20,000 bytes under a key of pthread_key_create without a destructor. Mode thread_local: 3,000 bytes in a
// thread-local variable.
#include "../common.h"

static pthread_key_t visit_key;
static __thread char *volatile session;

NOINLINE static void open_visit_buffer(void) {
    char *own = malloc(20000);
    memset(own, 't', 20000);
    pthread_setspecific(visit_key, own);
}

NOINLINE static void open_visit_session(void) {
    session = memset(malloc(3000), 1, 3000);
}

static void *handle_visit(void *has_key) {
    if (has_key)
        open_visit_buffer();
    else
        open_visit_session();
    return NULL;
}

int main(int argc, char **argv) {
    int has_key = argc > 1 && !strcmp(argv[1], "thread_key");
    pthread_key_create(&visit_key, NULL);
    ready();
    for (;;) {
        pthread_t t;
        if (pthread_create(&t, NULL, handle_visit, has_key ? &visit_key : NULL))
            return 1;
        pthread_join(t, NULL);
        serve_requests(60);
        nap(has_key ? 40 : 10);
    }
}
