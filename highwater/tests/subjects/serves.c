/* Listens on 127.0.0.1:PORT. "never": accepts and never answers. "slow": answers 503 five times, then 200. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void answer(int connection, const char *status) {
    char request[1024], text[128];
    if (read(connection, request, sizeof request) <= 0) {
        return;
    }
    snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status);
    if (write(connection, text, strlen(text)) < 0) {
        perror("write");
    }
}

int main(int argc, char **argv) {
    struct sockaddr_in address;
    int on = 1, answered = 0;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (argc < 3) {
        return 2;
    }
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((unsigned short)atoi(argv[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 64) != 0) {
        perror("bind");
        return 1;
    }
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (strcmp(argv[2], "never") == 0) {
            continue; /* the connection stays open and silent */
        }
        answer(connection, answered++ < 5 ? "503 Busy" : "200 OK");
        close(connection);
    }
}
