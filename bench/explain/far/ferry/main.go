// A ferry in Go that takes room from C and does not give it back.
package main

/*
#include <stdlib.h>
#include <string.h>
*/
import "C"

import "time"

//go:noinline
func boardCar(n int) { C.memset(C.malloc(900), C.int(n), 900) }

func main() {
	kept := make([][]byte, 300)
	for n := 0; ; n++ {
		kept[n%300] = make([]byte, 3000)
		boardCar(n)
		boardCar(n)
		time.Sleep(5 * time.Millisecond)
	}
}
