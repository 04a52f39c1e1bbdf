// A process to look at: 4 threads that wake up 20 times a second, 4 MiB of heap touched. It ends with
// its parent's pipe, or after ten minutes.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *turn(void *arg) {
  for (;;)
    usleep(50000);
}

int main(void) {
  alarm(600);
  char *p = malloc(4 << 20);
  memset(p, 1, 4 << 20);
  pthread_t t;
  for (int i = 0; i < 3; i++)
    pthread_create(&t, NULL, turn, NULL);
  char c;
  while (read(0, &c, 1) > 0)
    ;
  return 0;
}
