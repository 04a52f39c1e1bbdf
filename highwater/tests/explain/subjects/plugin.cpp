// Loaded by cxx.cpp while it runs.
//   g++ -g -O1 -fno-inline -shared -fPIC plugin.cpp -o libplugin.so
#include <cstring>
struct Note { char body[800]; };
__attribute__((noinline)) static Note *take_note(int id) {
    Note *note = new Note;
    memset(note->body, id, sizeof note->body);
    return note;
}
extern "C" void plugin_work(int id) {
    Note *note = take_note(id);
    __asm__ volatile("" ::"r"(note) : "memory");
}
