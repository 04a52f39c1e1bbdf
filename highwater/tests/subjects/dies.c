/* Ends at once: with "code", by exit code 3; with "segv" or "abort", by that signal; with "clean", by 0. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "code";
    fprintf(stderr, "cannot open /etc/missing: \x1b[31mno such file\n");
    fprintf(stderr, "password was %s\n", getenv("DB_PASSWORD") ? getenv("DB_PASSWORD") : "unset");
    if (strcmp(how, "segv") == 0) {
        raise(SIGSEGV);
    }
    if (strcmp(how, "abort") == 0) {
        abort();
    }
    if (strcmp(how, "kill") == 0) {
        raise(SIGKILL);
    }
    return strcmp(how, "clean") == 0 ? 0 : 3;
}
