// Go gateway (dynamic, with a little C): a handler that timed out leaves its goroutine sending on a channel nobody reads
package main

/*
#include <stdlib.h>
#include <string.h>
static void *tag_new(int n) { void *p = malloc(n); memset(p, 1, n); return p; }
static void tag_free(void *p) { free(p); }
*/
import "C"
import (
	"fmt"
	"time"
	"unsafe"
)

func fetch(n int, out chan<- []byte, delay time.Duration) {
	buf := make([]byte, n)
	for i := range buf {
		buf[i] = byte(i)
	}
	time.Sleep(delay)
	out <- buf
}

func handle(i int) int {
	out := make(chan []byte)
	delay := time.Duration(i*7%90) * time.Millisecond
	go fetch(20000+i*997%40000, out, delay)
	select {
	case b := <-out:
		return len(b)
	case <-time.After(70 * time.Millisecond):
		return 0
	}
}

func main() {
	t0 := time.Now()
	tags := make([]unsafe.Pointer, 3000)
	sum := make(chan int, 100)
	total := 0
	for i := 1; time.Since(t0) < 150*time.Second; i++ {
		go func(i int) { sum <- handle(i) }(i)
		j := i % 3000
		if tags[j] != nil {
			C.tag_free(tags[j])
		}
		tags[j] = C.tag_new(C.int(1000 + i%2000))
		for len(sum) > 0 {
			total += <-sum
		}
		time.Sleep(12 * time.Millisecond)
	}
	fmt.Println(total)
}
