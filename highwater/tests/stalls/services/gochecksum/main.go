// Goroutines that hand numbers on under a mutex and by channels, and C that allocates for them. Its work is of one length:
// it prints the same checksum however it is watched, and ends with 7.
package main

/*
#include <stdlib.h>
#include <string.h>

static unsigned char *block_of(int size) {
	unsigned char *block = malloc(size);
	memset(block, size, size);
	return block;
}

static int last_of(unsigned char *block, int size) {
	return block[size - 1];
}
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"
)

const (
	workers = 4
	rounds  = 1500
)

var (
	table sync.Mutex
	sums  [64]uint64
)

//go:noinline
func post(number int) {
	size := C.int(16 + number%2000)
	block := C.block_of(size)
	table.Lock()
	sums[number%len(sums)] += uint64(number) * uint64(C.last_of(block, size)+1)
	table.Unlock()
	C.free(unsafe.Pointer(block))
}

func main() {
	numbers, done := make(chan int), make(chan bool)
	for range workers {
		go func() {
			for number := range numbers {
				post(number)
			}
			done <- true
		}()
	}
	fmt.Println("ready")
	for number := 1; number <= rounds; number++ {
		numbers <- number
		if number%3 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	close(numbers)
	for range workers {
		<-done
	}
	sum := uint64(0)
	for _, one := range sums {
		sum = sum*31 + one
	}
	fmt.Println(sum)
	os.Exit(7)
}
