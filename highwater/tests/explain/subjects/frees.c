/* A library that frees what the program allocates: gcc -shared -fPIC frees.c -o libfrees.so */
#include <stdlib.h>

void take(void *block)
{
    free(block);
}
