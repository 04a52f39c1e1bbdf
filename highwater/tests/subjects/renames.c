/* Calls itself "<script>" and worse: its name is hostile text. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void) {
    prctl(PR_SET_NAME, "<script>) R 1 1");
    printf("ready\n");
    fflush(stdout);
    pause();
    return 0;
}
