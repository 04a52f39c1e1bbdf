/* Allocates and frees on three threads until it is ended, or for so many milliseconds. Ends with 3, or the second
   argument; rests for 2 ms after every 1,000 blocks of a thread, or so many microseconds as the third says. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int pause_us = 2000;

static void *work(void *argument)
{
    static __thread void *blocks[3000];
    for (unsigned i = (unsigned)(long)argument;; i++) {
        unsigned at = i * 7919 % 3000;
        size_t bytes = 1 + i * 31 % 3000;
        free(blocks[at]);
        blocks[at] = malloc(bytes);
        memset(blocks[at], 1, bytes);
        if (i % 1000 == 0)
            usleep(pause_us);
    }
}

int main(int count, char **arguments)
{
    pthread_t made;
    if (count > 3)
        pause_us = atoi(arguments[3]);
    for (long i = 0; i < 3; i++)
        pthread_create(&made, 0, work, (void *)i);
    usleep(1000 * (count > 1 ? atoi(arguments[1]) : 60000));
    return count > 2 ? atoi(arguments[2]) : 3;
}
