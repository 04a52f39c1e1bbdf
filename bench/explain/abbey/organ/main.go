// An organ in Go whose bellows are a thread of C's own, which loses air.
package main

/*
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) static int pump_air(int n) { char *volatile air = malloc(600); memset(air, n, 600); return air[2]; }
static void *bellows(void *none) {
    for (int n = 0;; n++) {
        for (int i = 0; i < 5; i++) pump_air(n);
        for (int i = 0; i < 40; i++) { char *volatile draught = malloc(100 + 30 * i); memset(draught, i, 100); free(draught); }
        usleep(25000);
    }
    return none;
}
static void tread(void) { pthread_t t; pthread_create(&t, NULL, bellows, NULL); }
*/
import "C"

import "time"

func main() {
	C.tread()
	pipes := make([][]byte, 400)
	for n := 0; ; n++ {
		for i := 0; i < 30; i++ {
			pipes[(n*30+i)%400] = make([]byte, 1500+i*40)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
