/* Keeps blocks for some seconds and ends with status 7; with an argument it stays until it is ended. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 3000

static void *kept[BLOCKS];

int main(int count, char **words)
{
    for (int block = 0; block < BLOCKS; block++) {
        kept[block] = malloc(1000);
        memset(kept[block], 1, 1000);
        usleep(1000);
    }
    (void)words;
    while (count > 1)
        pause();
    return 7;
}
