// A plugin that keeps nothing, and loses what it tunes.
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static int tune(int n) { char *volatile string = malloc(850); memset(string, n, 850); return string[4]; }
int play(int n) { return tune(n) + 1; }
