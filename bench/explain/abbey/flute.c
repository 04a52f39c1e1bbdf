// A plugin of the same size, which gives back what it takes.
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static int blow(int n) { char *volatile breath = malloc(850); memset(breath, n, 850); int tone = breath[4]; free(breath); return tone; }
int play(int n) { return blow(n) + 2; }
