// Go: a goroutine for each connection, locks of package sync. One fault by flag: mutex (a peer asked under it), rwmutex
// (computing under it), chain (two mutexes, fsync at the end), channel (a channel of one as a lock). "fixed" is the
// same program mended.
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
	kind   string
	fixed  bool
	ledger sync.Mutex
	store  sync.Mutex
	prices sync.RWMutex
	token  = make(chan struct{}, 1)
	count  int
)

func monotonic() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func work(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

//go:noinline
func ibexAsk(peer net.Conn, ms byte) {
	if _, err := peer.Write([]byte{ms}); err != nil {
		os.Exit(0)
	}
	var answer [1]byte
	if _, err := peer.Read(answer[:]); err != nil {
		os.Exit(0)
	}
}

//go:noinline
func gnuWriteOut(file *os.File) {
	block := make([]byte, 2<<20)
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		file.WriteAt(block, 0)
		file.Sync()
	}
}

//go:noinline
func oryxSettle(peer net.Conn, file *os.File) {
	lock := func(l sync.Locker, during func()) {
		if !fixed {
			l.Lock()
		}
		during()
		if fixed {
			l.Lock()
		}
		count++
		l.Unlock()
	}
	switch kind {
	case "mutex":
		lock(&ledger, func() { ibexAsk(peer, 80) })
	case "rwmutex":
		lock(&prices, func() { work(40 * time.Millisecond) })
	case "chain":
		lock(&store, func() { gnuWriteOut(file) })
	case "channel":
		if !fixed {
			token <- struct{}{}
		}
		ibexAsk(peer, 80)
		if fixed {
			token <- struct{}{}
		}
		<-token
	}
}

//go:noinline
func kuduMove() {
	ledger.Lock()
	store.Lock()
	count++
	store.Unlock()
	ledger.Unlock()
}

func serve() {
	work(150 * time.Microsecond)
	switch kind {
	case "rwmutex":
		prices.RLock()
		work(3 * time.Microsecond)
		prices.RUnlock()
	case "channel":
		token <- struct{}{}
		count++
		<-token
	default:
		ledger.Lock()
		count++
		ledger.Unlock()
	}
}

func connection(me int, conn net.Conn, truth *os.File) {
	var b [1]byte
	for {
		if _, err := conn.Read(b[:]); err != nil {
			return
		}
		start := monotonic()
		serve()
		end := monotonic()
		if _, err := conn.Write(b[:]); err != nil {
			return
		}
		if end-start > 3_000_000 {
			fmt.Fprintf(truth, "stall %d %d %d\n", me, start, end)
		}
	}
}

// The other process: a peer that answers after as long as it was told, and twelve clients.
func clients(address string, seconds float64) {
	peer, _ := net.Dial("tcp", address)
	go func() {
		var ms [1]byte
		for {
			if _, err := peer.Read(ms[:]); err != nil {
				os.Exit(0)
			}
			time.Sleep(time.Duration(ms[0]) * time.Millisecond)
			peer.Write(ms[:])
		}
	}()
	time.Sleep(300 * time.Millisecond)
	for me := range 12 {
		to, err := net.Dial("tcp", address)
		if err != nil {
			os.Exit(4)
		}
		go func() {
			b := []byte{1}
			for {
				time.Sleep(time.Duration(4000+me*377) * time.Microsecond)
				if _, err := to.Write(b); err != nil {
					os.Exit(0)
				}
				if _, err := to.Read(b); err != nil {
					os.Exit(0)
				}
			}
		}()
	}
	time.Sleep(time.Duration((seconds + 1) * float64(time.Second)))
}

func main() {
	path, kindOf := os.Args[1], os.Args[3]
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	if kindOf == "clients" {
		clients(path, seconds)
		return
	}
	kind = kindOf
	for _, word := range os.Args[4:] {
		fixed = fixed || word == "fixed"
	}
	truth, _ := os.Create(path)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(4)
	}
	own, _ := os.Executable()
	other := exec.Command(own, listener.Addr().String(), os.Args[2], "clients")
	other.Start()
	peer, _ := listener.Accept()
	// The one that is asked connected to us, as agents do.
	file, _ := os.Create(path + ".data")
	os.Remove(path + ".data")
	go func() {
		for {
			time.Sleep(620 * time.Millisecond)
			oryxSettle(peer, file)
		}
	}()
	if kind == "chain" {
		go func() {
			for {
				time.Sleep(6 * time.Millisecond)
				kuduMove()
			}
		}()
	}
	go func() {
		for me := 0; ; me++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go connection(me, conn, truth)
		}
	}()
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	other.Process.Kill()
}
