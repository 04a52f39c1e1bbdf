/* Put before every program here: it ends by itself. A test that is killed between two of its steps
 * leaves its subjects behind, and three of the growing one filled a machine in a quarter of an hour. */
#include <unistd.h>

__attribute__((constructor)) static void bounded(void) {
    alarm(240);
}
