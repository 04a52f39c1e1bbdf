// With locale_library.c. The lock of locales must be as it was when main comes: setlocale takes it.
#define _GNU_SOURCE
#include "truth.h"
#include <locale.h>

extern locale_t library_locale;

int main(void) {
    alarm(20);
    MUST(library_locale && setlocale(LC_ALL, ""));
    mark();
    for (int i = 0; i < 1000; i++) MUST(took(malloc(100)));
    mark();
    return 0;
}
