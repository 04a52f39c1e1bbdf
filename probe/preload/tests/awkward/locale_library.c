// A library whose constructor makes a locale, as p11-kit's does: the first malloc after the C library's own start comes
// from within newlocale, under the lock of locales.
#include <locale.h>

locale_t library_locale;

__attribute__((constructor)) static void begin(void) { library_locale = newlocale(LC_ALL_MASK, "POSIX", (locale_t)0); }
