// A program whose variables hold objects of known sizes.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

type profile struct {
	user int
	body *[1024]byte
}

var store = map[int]*profile{}

type ledger struct {
	entries map[int][]byte
	names   []string
}

type bank struct {
	title string
	open  *ledger
}

var theBank = &bank{title: "the bank", open: &ledger{entries: map[int][]byte{}}}

var sessions sync.Map

//go:noinline
func fillStore(n int) {
	for i := 0; i < n; i++ {
		store[len(store)] = &profile{i, new([1024]byte)}
	}
}

//go:noinline
func book(n int) {
	for i := 0; i < n; i++ {
		theBank.open.entries[len(theBank.open.entries)] = make([]byte, 2048)
	}
}

//go:noinline
func openSessions(n int) {
	for i := 0; i < n; i++ {
		sessions.Store(i, new([2048]byte))
	}
}

//go:noinline
func hold(n int, ready, done chan int) {
	var kept [][]byte
	for i := 0; i < n; i++ {
		kept = append(kept, make([]byte, 4096))
	}
	ready <- len(kept)
	<-done
	fmt.Println(kept)
}

//go:noinline
func expireLater(n int) {
	body := new([2048]byte)
	time.AfterFunc(time.Hour, func() { fmt.Println(n, body[0]) })
}

//go:noinline
func receiveUploads(n int) {
	for i := 0; i < n; i++ {
		expireLater(i)
	}
}

var sink [4][]byte

func busy(n int) {
	for i := 0; ; i++ {
		sink[n] = make([]byte, 1000+i%100)
		store[-1-n%1] = &profile{i, new([1024]byte)}
	}
}

func main() {
	ready, done := make(chan int), make(chan int)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		n := 0
		if len(words) > 1 {
			n, _ = strconv.Atoi(words[1])
		}
		switch words[0] {
		case "store":
			fillStore(n)
		case "book":
			book(n)
		case "sessions":
			openSessions(n)
		case "hold":
			go hold(n, ready, done)
			<-ready
		case "uploads":
			receiveUploads(n)
		case "busy":
			go busy(0)
		case "gc":
			runtime.GC()
		}
		fmt.Println("done", words[0])
	}
}
