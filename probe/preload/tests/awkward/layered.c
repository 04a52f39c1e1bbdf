// Allocates and frees a little, and says so.
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    for (int round = 0; round < 100; round++) free(malloc(100 + round));
    puts("done");
    return 0;
}
