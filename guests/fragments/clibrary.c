// What allocates inside the C library: text, files, names, conversions, callbacks.
#include "guest.h"
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fnmatch.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <iconv.h>
#include <langinfo.h>
#include <libintl.h>
#include <limits.h>
#include <locale.h>
#include <netdb.h>
#include <pwd.h>
#include <regex.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wordexp.h>

// step paths(rounds: 1..20)
void paths(long rounds) {
    long whole = 0, missing = 0;
    for (long round = 0; round < rounds; round++) {
        char *real = realpath("/proc/../proc/./self/../../usr/bin/..", NULL), *none = realpath("/nowhere/at/all", NULL);
        char *folder = getcwd(NULL, 0), *sized = getcwd(NULL, 8000);
        whole += (real != NULL) + (folder != NULL) + (sized != NULL);
        missing += none == NULL;
        free(real), free(none), free(folder), free(sized);
    }
    say("paths: %ld, %ld missing", whole, missing);
}

// step lines(count: 1..500, width: 1..5000)
void lines(long count, long width) {
    char *text = NULL, *line = NULL;
    size_t length = 0, room = 0;
    FILE *out = open_memstream(&text, &length);
    for (long each = 0; out && each < count; each++) fprintf(out, "%*ld%c", (int)(width % (each + 7) + 1), each, each % 3 ? '\n' : ';');
    if (out) fclose(out);
    FILE *in = text ? fmemopen(text, length, "r") : NULL;
    long read = 0, sum = 0, got;
    while (in && (got = read % 2 ? getline(&line, &room, in) : getdelim(&line, &room, ';', in)) > 0) sum += got, read++;
    if (in) fclose(in);
    free(line);
    free(text);
    say("lines: %ld, %ld bytes", read, sum);
}

// step printed(width: 1 100 1..70000)
void printed(long width) {
    char *text = NULL, *number = NULL, *word = NULL, *rest = NULL;
    int length = asprintf(&text, "%*d|%.*f|%ls", (int)width, 7, 300, 1e200, L"wide");
    int digits = asprintf(&number, "%.1000Lf %a", 3.5L, 0.1);
    int found = sscanf("12 abcdef rest", "%*d %m[a-e]%ms", &word, &rest);
    wchar_t wide[200];
    int letters = swprintf(wide, 200, L"%s %ld", "narrow", width);
    say("printed: %d %d %d %s %s %d", length, digits, found, word ? word : "-", rest ? rest : "-", letters > 0);
    free(text), free(number), free(word), free(rest);
}

static int by_first(const void *left, const void *right) {
    free(malloc(300));
    return *(const int *)left - *(const int *)right;
}

static void stays(void *node) { (void)node; }

// step sorted(count: 2..2000, bytes: 4 32 400 4..3000)
void sorted(long count, long bytes) {
    bytes = (bytes + 3) / 4 * 4;
    char *all = calloc(count, bytes);
    long wrong = 0, nodes = 0;
    void *tree = NULL;
    if (!all) return;
    for (long each = 0; each < count; each++) *(int *)(all + each * bytes) = (int)(each * 7919 % 1009);
    qsort(all, count, bytes, by_first);
    for (long each = 1; each < count; each++) wrong += *(int *)(all + each * bytes) < *(int *)(all + (each - 1) * bytes);
    for (long each = 0; each < count; each += 3) nodes += tsearch(all + each * bytes, &tree, by_first) != NULL;
    tdestroy(tree, stays);
    free(all);
    say("sorted: %ld wrong, %ld nodes", wrong, nodes);
}

// Opens and closes libraries of the C library's own.
// step converted(which: 0 1 2 3 4 5, rounds: 1..5)
void converted(long which, long rounds) {
    static const char *const names[] = {"UTF-16", "ISO-8859-15", "EUC-JP", "UTF-7", "CP1252//TRANSLIT", "NO-SUCH-SET"};
    long whole = 0, bytes = 0;
    int errno_after = 0;
    for (long round = 0; round < rounds; round++) {
        char in[200], out[2000], *from = in, *to = out;
        memset(in, 'x', sizeof in);
        size_t left = sizeof in, room = sizeof out;
        iconv_t converter = iconv_open(names[which], "UTF-8");
        if (converter == (iconv_t)-1) {
            errno_after = errno;
            continue;
        }
        whole += iconv(converter, &from, &left, &to, &room) == 0;
        bytes += (long)(sizeof out - room);
        free(malloc(300000));
        iconv_close(converter);
    }
    say("converted: %ld, %ld bytes, errno %d", whole, bytes, errno_after);
}

// step located(kind: 0 1 2, rounds: 1..5)
void located(long kind, long rounds) {
    static const char *const names[] = {"C.UTF-8", "C", "xx_NONE"};
    long made = 0, letters = 0;
    for (long round = 0; round < rounds; round++) {
        locale_t locale = newlocale(LC_ALL_MASK, names[kind], NULL), before = uselocale(NULL);
        if (!locale) continue;
        made++;
        uselocale(locale);
        wchar_t wide[50];
        letters += (long)mbstowcs(wide, "gr\xc3\xbc\xc3\x9f", 50);
        letters += strcoll("a", "b") < 0;
        locale_t copy = duplocale(locale);
        uselocale(before);
        freelocale(locale);
        if (copy) freelocale(copy);
    }
    char *set = setlocale(LC_CTYPE, names[kind]);
    int is_set = set != NULL;
    setlocale(LC_CTYPE, "C");
    say("located: %ld, %ld, %d", made, letters, is_set);
}

// Names are looked up in files. Elsewhere a name server would be asked.
// step named(kind: 0 1 2 3 4) not in in_root in_namespaces without_proc
void named(long kind) {
    struct addrinfo wanted = {0}, *found = NULL;
    int code = 0;
    long count = 0;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = kind == 0 ? AI_NUMERICHOST | AI_NUMERICSERV : 0;
    switch (kind) {
    case 0:
    case 1:
        code = getaddrinfo(kind ? "localhost" : "127.0.0.1", "80", &wanted, &found);
        for (struct addrinfo *each = found; each; each = each->ai_next) count++;
        if (found) freeaddrinfo(found);
        count = count > 0;
        break;
    case 2: count = getpwuid(0) != NULL && getpwnam("no-such-user") == NULL; break;
    case 3: count = getgrgid(0) != NULL; break;
    case 4: setpwent(); while (getpwent()) count = 1; endpwent(); break;
    }
    say("named: code %d, %ld", code, count);
}

static long seen_paths;
static int visit(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about, (void)kind, (void)where;
    char *copy = strdup(path);
    seen_paths += strstr(copy, "plugin") != NULL;
    free(copy);
    return 0;
}

static int is_plugin(const struct dirent *entry) { return fnmatch("plugin[0-3].so", entry->d_name, 0) == 0; }

// step searched(kind: 0 1 2 3)
void searched(long kind) {
    char path[PATH_MAX];
    long found = 0;
    const char *folder = getenv("GUEST_PLUGINS");
    if (!folder) folder = ".";
    if (kind == 0) {
        glob_t all = {0};
        snprintf(path, sizeof path, "%s/plu*[0-3].so", folder);
        found = glob(path, GLOB_MARK, NULL, &all) == 0 ? (long)all.gl_pathc : -1;
        globfree(&all);
    } else if (kind == 1) {
        struct dirent **all = NULL;
        found = scandir(folder, &all, is_plugin, alphasort);
        for (long each = 0; each < found; each++) free(all[each]);
        free(all);
    } else if (kind == 2) {
        seen_paths = 0;
        nftw(folder, visit, 4, FTW_PHYS);
        found = seen_paths >= 4;
    } else {
        wordexp_t words = {0};
        found = wordexp("one 'two three' ${NO_SUCH:-four}", &words, WRDE_NOCMD) == 0 ? (long)words.we_wordc : -1;
        if (found > 0) wordfree(&words);
    }
    say("searched: %ld", found);
}

// step matched(rounds: 1..20)
void matched(long rounds) {
    long found = 0;
    for (long round = 0; round < rounds; round++) {
        regex_t pattern;
        regmatch_t parts[4];
        if (regcomp(&pattern, "^(([a-z]+)[0-9]{1,3})+\\2?x*$", REG_EXTENDED)) continue;
        found += regexec(&pattern, "abc12def345xxxx", 4, parts, 0) == 0;
        found += regexec(&pattern, "ABC", 4, parts, 0) == 0;
        regfree(&pattern);
    }
    say("matched: %ld", found);
}

// step environment(count: 1..200)
void environment(long count) {
    char name[30], *value;
    long held = 0;
    for (long each = 0; each < count; each++) {
        snprintf(name, sizeof name, "GUEST_%ld", each);
        setenv(name, "one", 1);
        setenv(name, "a longer one than before", 1);
    }
    for (long each = 0; each < count; each++) {
        snprintf(name, sizeof name, "GUEST_%ld", each);
        held += (value = getenv(name)) && strlen(value) == 24;
        unsetenv(name);
    }
    say("environment: %ld", held);
}

// step streams(kind: 0 1 2 3, bytes: 1 100 1..100000)
void streams(long kind, long bytes) {
    FILE *file = kind == 2 ? tmpfile() : fopen(kind == 3 ? "/nowhere/file" : "/dev/null", "w+");
    if (!file) {
        say("streams: none, errno %d", errno);
        return;
    }
    char *buffer = kind == 1 ? malloc(bytes) : NULL;
    if (buffer) setvbuf(file, buffer, _IOFBF, bytes);
    long written = 0;
    for (int each = 0; each < 20; each++) written += fprintf(file, "%*d\n", (int)(bytes % 3000 + 1), each);
    rewind(file);
    char *line = NULL;
    size_t room = 0;
    long read = 0;
    while (getline(&line, &room, file) > 0) read++;
    free(line);
    int code = fclose(file);
    free(buffer);
    say("streams: %ld written, %ld read, code %d", written, read, code);
}

__attribute__((noinline)) static int called(int depth) {
    volatile int more = 1;
    if (depth > 0) return called(depth - 1) + more - 1;
    void *places[100];
    int count = backtrace(places, 100);
    char **names = backtrace_symbols(places, count);
    int is_named = names && names[0][0];
    free(names);
    return count * 2 + is_named;
}

// step traced_back(depth: 0 1..60)
void traced_back(long depth) { say("traced_back: %d", called((int)depth)); }

// step time_zones(rounds: 1..5)
void time_zones(long rounds) {
    static const char *const zones[] = {"America/New_York", "UTC", "XYZ-3", ":/nowhere"};
    long hours = 0;
    for (long round = 0; round < rounds * 4; round++) {
        time_t moment = 1700000000;
        struct tm parts;
        setenv("TZ", zones[round % 4], 1);
        tzset();
        localtime_r(&moment, &parts);
        hours += parts.tm_hour;
    }
    unsetenv("TZ");
    tzset();
    say("time_zones: %ld", hours);
}

// step messages(unused: 0)
void messages(long unused) {
    (void)unused;
    bindtextdomain("guest", "/nowhere");
    textdomain("guest");
    const char *text = gettext("not translated");
    long length = (long)strlen(text);
    for (int each = -1; each < 140; each++) length += strlen(strerror(each)) > 0;
    for (int each = 0; each < 70; each++) length += strlen(strsignal(each)) > 0;
    textdomain("messages");
    say("messages: %ld, %s", length, nl_langinfo(CODESET));
}
