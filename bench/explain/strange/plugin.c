// What server.c opens: it forgets what it filters.
#include <stdlib.h>
#include <string.h>
static void *volatile last;
void filter_apply(int n) { for (int i = 0; i < 4; i++) last = memset(malloc(600), n, 600); last = NULL; }
