// Go: six goroutines that take jobs from an unbuffered channel, which one goroutine fills from a pipe of another process. One fault by
// flag: axle (computing under a Mutex), spoke (a RWMutex, its writer syncs a file under it), felloe (a channel with one token in it, taken by
// receiving; a peer asked meanwhile). hub has none: a goroutine that computes, and one that wakes in a select. "fixed" is mended.
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

var (
	kind  string
	fixed bool
	rim   sync.Mutex
	nave  sync.RWMutex
	token = make(chan struct{}, 1)
	jobs  = make(chan int64)
	truth *os.File
	turns uint64
)

func monotonic() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func turn(d time.Duration) (n uint64) {
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
	}
	return n
}

func told(word string, me int, start, least int64) {
	if end := monotonic(); end-start >= least {
		fmt.Fprintf(truth, "%s %d %d %d\n", word, me, start, end)
	}
}

//go:noinline
func rowanSum() {
	if !fixed {
		rim.Lock()
	}
	n := turn(50 * time.Millisecond)
	if fixed {
		rim.Lock()
	}
	turns += n
	rim.Unlock()
}

//go:noinline
func hollySave(file *os.File) {
	block := make([]byte, 1<<20)
	if !fixed {
		nave.Lock()
	}
	for end := time.Now().Add(70 * time.Millisecond); time.Now().Before(end); {
		file.WriteAt(block, 0)
		file.Sync()
	}
	if fixed {
		nave.Lock()
	}
	turns++
	nave.Unlock()
}

//go:noinline
func yewAsk(peer net.Conn) {
	var b [1]byte
	if !fixed {
		<-token
	}
	peer.Write(b[:])
	if _, err := peer.Read(b[:]); err != nil {
		os.Exit(0)
	}
	if fixed {
		<-token
	}
	turns++
	token <- struct{}{}
}

//go:noinline
func serve(me int) {
	for came := range jobs {
		turn(170 * time.Microsecond)
		start := monotonic()
		switch kind {
		case "spoke":
			nave.RLock()
			told("wait", me, start, 1_000_000)
			turn(time.Microsecond)
			nave.RUnlock()
		case "felloe":
			<-token
			told("wait", me, start, 1_000_000)
			turns++
			token <- struct{}{}
		default:
			rim.Lock()
			told("wait", me, start, 1_000_000)
			turns++
			rim.Unlock()
		}
		told("stall", me, came, 3_000_000)
	}
}

// The other process: a job every 2.1 ms, and a peer that takes 75 ms to answer.
func others(address string) {
	listener, err := net.Listen("unix", address)
	if err != nil {
		os.Exit(4)
	}
	go func() {
		peer, err := listener.Accept()
		for b := []byte{0}; err == nil; {
			if _, err = peer.Read(b); err == nil {
				time.Sleep(75 * time.Millisecond)
				_, err = peer.Write(b)
			}
		}
		os.Exit(0)
	}()
	for b := []byte{1}; ; time.Sleep(2100 * time.Microsecond) {
		if _, err := os.Stdout.Write(b); err != nil {
			os.Exit(0)
		}
	}
}

func dialled(address string) net.Conn {
	for range 200 {
		if peer, err := net.Dial("unix", address); err == nil {
			return peer
		}
		time.Sleep(5 * time.Millisecond)
	}
	os.Exit(4)
	return nil
}

func background(peer net.Conn) {
	file, _ := os.Create(os.Args[1] + ".data")
	for {
		time.Sleep(640 * time.Millisecond)
		switch kind {
		case "axle":
			rowanSum()
		case "spoke":
			hollySave(file)
		case "felloe":
			yewAsk(peer)
		case "hub":
			turn(30 * time.Millisecond)
		}
	}
}

func ticks() {
	never := make(chan int)
	for tick := time.NewTicker(40 * time.Millisecond); ; {
		select {
		case <-tick.C:
			turn(50 * time.Microsecond)
		case <-never:
		}
	}
}

func main() {
	if os.Args[1] == "others" {
		others(os.Args[2])
	}
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	kind, fixed = os.Args[3], os.Args[len(os.Args)-1] == "fixed"
	truth, _ = os.Create(os.Args[1])
	token <- struct{}{}
	other := exec.Command(os.Args[0], "others", os.Args[1]+".far")
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	from, err := other.StdoutPipe()
	if err != nil || other.Start() != nil {
		os.Exit(4)
	}
	go background(dialled(os.Args[1] + ".far"))
	if kind == "hub" {
		go ticks()
	}
	for me := range 6 {
		go serve(me)
	}
	go func() {
		for b := make([]byte, 1); ; {
			if _, err := from.Read(b); err != nil {
				os.Exit(0)
			}
			jobs <- monotonic()
		}
	}()
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	other.Process.Kill()
}
