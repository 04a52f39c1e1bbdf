// A service that allocates a little and then waits, at most an hour. With a port it listens there, unless it was
// started with a preloaded library and the file /etc/never-PORT is there: then it runs and never answers.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void answer(const char *port) {
  char never[64];
  snprintf(never, sizeof never, "/etc/never-%s", port);
  if (getenv("LD_PRELOAD") && *getenv("LD_PRELOAD") && access(never, F_OK) == 0)
    return;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 8))
    exit(1);
  for (;;)
    close(accept(fd, 0, 0));
}

int main(int argc, char **argv) {
  alarm(3600);
  char *p = malloc(1 << 20);
  memset(p, 1, 1 << 20);
  if (argc > 1)
    answer(argv[1]);
  for (;;)
    pause();
}
