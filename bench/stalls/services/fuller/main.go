// Go: ten goroutines that serve connections of AF_UNIX. peer: a Mutex held while lines are written to a TCP peer that reads slowly.
// nap has no fault: a goroutine that sleeps, one that computes and one that asks the peer, and nobody waits for any. "fixed" is mended.
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

type fuller struct {
	kind  string
	fixed bool
	mu    sync.Mutex
	wool  []byte
	peer  *net.TCPConn
	truth *os.File
}

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

func (f *fuller) log(word string, me int, start, least int64) {
	if end := monotonic(); end-start >= least {
		fmt.Fprintf(f.truth, "%s %d %d %d\n", word, me, start, end)
	}
}

//go:noinline
func (f *fuller) felterSend() {
	f.mu.Lock()
	wool := f.wool
	f.wool = nil
	if f.fixed {
		f.mu.Unlock()
		f.peer.Write(wool)
		return
	}
	defer f.mu.Unlock()
	f.peer.Write(append(wool, make([]byte, 600_000)...))
}

//go:noinline
func (f *fuller) serve(me int, conn net.Conn) {
	var b [1]byte
	for {
		if _, err := conn.Read(b[:]); err != nil {
			return
		}
		came := monotonic()
		turn(180 * time.Microsecond)
		start := monotonic()
		f.mu.Lock()
		f.log("wait", me, start, 1_000_000)
		f.wool = append(f.wool, b[0])
		f.mu.Unlock()
		conn.Write(b[:])
		f.log("stall", me, came, 3_000_000)
	}
}

// The other process: clients, and a peer that rests between its reads.
func others(path string) {
	to, err := net.Dial("tcp", os.Args[3])
	if err != nil {
		os.Exit(4)
	}
	to.(*net.TCPConn).SetReadBuffer(16 << 10)
	for me := range 10 {
		go func() {
			conn, err := net.Dial("unix", path+".door")
			if err != nil {
				os.Exit(4)
			}
			var b [1]byte
			for {
				conn.Write(b[:])
				if _, err := conn.Read(b[:]); err != nil {
					os.Exit(0)
				}
				time.Sleep(time.Duration(8000+me*300) * time.Microsecond)
			}
		}()
	}
	some := make([]byte, 40_000)
	for {
		if _, err := to.Read(some); err != nil {
			os.Exit(0)
		}
		time.Sleep(8 * time.Millisecond)
	}
}

func (f *fuller) naps() {
	for range time.Tick(300 * time.Millisecond) {
		turn(40 * time.Millisecond)
		f.peer.Write(make([]byte, 100))
		time.Sleep(150 * time.Millisecond)
	}
}

func main() {
	if os.Args[1] == "others" {
		others(os.Args[2])
	}
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	f := &fuller{kind: os.Args[3], fixed: os.Args[len(os.Args)-1] == "fixed"}
	f.truth, _ = os.Create(os.Args[1])
	door, err := net.Listen("unix", os.Args[1]+".door")
	far, wrong := net.Listen("tcp", "127.0.0.1:0")
	if err != nil || wrong != nil {
		os.Exit(4)
	}
	other := exec.Command(os.Args[0], "others", os.Args[1], far.Addr().String())
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if other.Start() != nil {
		os.Exit(4)
	}
	came, _ := far.Accept()
	f.peer = came.(*net.TCPConn)
	f.peer.SetWriteBuffer(16 << 10)
	go func() {
		for me := 0; ; me++ {
			conn, err := door.Accept()
			if err != nil {
				return
			}
			go f.serve(me, conn)
		}
	}()
	if f.kind == "nap" {
		go f.naps()
	} else {
		go func() {
			for range time.Tick(750 * time.Millisecond) {
				f.felterSend()
			}
		}()
	}
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	other.Process.Kill()
}
