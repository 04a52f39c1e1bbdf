// A service that allocates a little and then waits; at most ten minutes.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  alarm(600);
  char *p = malloc(1 << 20);
  memset(p, 1, 1 << 20);
  for (;;)
    pause();
}
