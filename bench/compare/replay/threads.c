/* Four threads allocate, four others free, through one queue each; phases of different rate and size, large buffers of
 * which only a part is written, idle gaps. The same work in every run. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS = 4, ROOM = 4096, PHASES = 6 };

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *blocks[ROOM];
    unsigned head, tail, done, keep;
};

static struct queue queues[PAIRS];
static const unsigned rounds[PHASES] = {400, 1500, 200, 2500, 100, 800};
static const unsigned sizes[PHASES] = {200, 900, 3000, 120, 9000, 600};

static void put(struct queue *queue, void *block)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->head - queue->tail == ROOM)
        pthread_cond_wait(&queue->changed, &queue->lock);
    queue->blocks[queue->head++ % ROOM] = block;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static void *allocate(void *argument)
{
    unsigned number = (unsigned)(long)argument, seed = number * 77 + 1;
    struct queue *queue = &queues[number];
    for (int phase = 0; phase < PHASES; phase++) {
        for (unsigned round = 0; round < rounds[phase]; round++) {
            for (int i = 0; i < 200; i++) {
                seed = seed * 1664525 + 1013904223;
                size_t bytes = 16 + (seed >> 12) % (2 * sizes[phase]);
                if (seed % 1000 == 0)
                    bytes = 65536 + (seed >> 8) % 400000;
                char *block = malloc(bytes);
                memset(block, 1, bytes > 65536 ? bytes / 3 : bytes);
                put(queue, block);
            }
            usleep(1500);
        }
        usleep(700000);
    }
    pthread_mutex_lock(&queue->lock);
    queue->done = 1;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return 0;
}

/* Keeps the last thousands and frees the oldest. */
static void *release(void *argument)
{
    struct queue *queue = &queues[(long)argument];
    static __thread void *kept[6000];
    unsigned at = 0;
    for (;;) {
        pthread_mutex_lock(&queue->lock);
        while (queue->head == queue->tail && !queue->done)
            pthread_cond_wait(&queue->changed, &queue->lock);
        if (queue->head == queue->tail) {
            pthread_mutex_unlock(&queue->lock);
            break;
        }
        void *block = queue->blocks[queue->tail++ % ROOM];
        pthread_cond_broadcast(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
        free(kept[at]);
        kept[at] = block;
        at = (at + 1) % 6000;
    }
    sleep(1);
    return 0;
}

int main(void)
{
    pthread_t threads[2 * PAIRS];
    for (long i = 0; i < PAIRS; i++) {
        pthread_mutex_init(&queues[i].lock, 0);
        pthread_cond_init(&queues[i].changed, 0);
        pthread_create(&threads[2 * i], 0, allocate, (void *)i);
        pthread_create(&threads[2 * i + 1], 0, release, (void *)i);
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        pthread_join(threads[i], 0);
    return 0;
}
