// A program that leaks in three ways, and reports itself what the reader should find.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

type entry struct {
	key  string
	body []byte
}

var cache = map[int]*entry{}

//go:noinline
func remember(n int) {
	cache[n] = &entry{strconv.Itoa(n), make([]byte, 4096)}
}

var slices [][]byte

func grow(bytes int) { slices = append(slices, make([]byte, bytes)) }

//go:noinline
func growMany() {
	for i := 0; i < 2000; i++ {
		grow(8192)
	}
}

func wait(done chan int) { <-done }

//go:noinline
func start(done chan int) { go wait(done) }

var sink [8][]byte

func busy(n int) {
	for {
		sink[n] = make([]byte, 1000+n)
		runtime.Gosched()
	}
}

func main() {
	var mutex sync.Mutex
	mutex.Lock()
	go func() { mutex.Lock() }()
	done := make(chan int)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		switch words[0] {
		case "cache":
			for i := 0; i < 10000; i++ {
				remember(len(cache))
			}
		case "grow":
			growMany()
		case "start":
			n, _ := strconv.Atoi(words[1])
			for i := 0; i < n; i++ {
				start(done)
			}
		case "busy":
			for i := 0; i < 4; i++ {
				go busy(i)
			}
		case "gc":
			runtime.GC()
			runtime.GC()
		case "off":
			runtime.MemProfileRate = 0
		case "profile":
			profile()
		}
		fmt.Println("done", words[0])
	}
}

func profile() {
	records := make([]runtime.MemProfileRecord, 100000)
	n, _ := runtime.MemProfile(records, false)
	for _, r := range records[:n] {
		var names []string
		frames := runtime.CallersFrames(r.Stack())
		for {
			f, more := frames.Next()
			names = append(names, fmt.Sprintf("%s %s:%d", f.Function, f.File, f.Line))
			if !more {
				break
			}
		}
		fmt.Printf("record %d %d %s\n", r.InUseObjects(), r.InUseBytes(), strings.Join(names, "|"))
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	fmt.Println("stats", stats.HeapAlloc, stats.HeapInuse, stats.HeapIdle-stats.HeapReleased, stats.NumGC, stats.StackInuse, stats.BuckHashSys)
	fmt.Println("goroutines", runtime.NumGoroutine())
}
