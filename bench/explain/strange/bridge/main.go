// A bridge from Go to C, which forgets the strings that it handed over.
package main

/*
#include <stdlib.h>
#include <string.h>
char *c_label(int n) { char *p = malloc(800); memset(p, n, 800); return p; }
int c_length(const char *p) { return p[0]; }
*/
import "C"

import "time"

//go:noinline
func label(n int) C.int { return C.c_length(C.c_label(C.int(n))) }

func main() {
	kept := make([][]byte, 500)
	for n := 0; ; n++ {
		for i := 0; i < 20; i++ {
			kept[(n*20+i)%500] = make([]byte, 2000)
		}
		for i := 0; i < 4; i++ {
			label(n)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
