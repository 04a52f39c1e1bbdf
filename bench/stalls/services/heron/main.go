// Go: lines over TCP, a goroutine for each connection; the clients and a slow peer are another process. One fault by flag: mutex (a
// reply awaited under it), chain (a Mutex, a RWMutex behind it, fsync there), cond (slots kept under a Cond, one goroutine that
// has them all), gate (a channel of one for a lock, computing under it). "fixed" is the same program mended.
package main

import (
	"bufio"
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
	marsh sync.Mutex
	reeds sync.RWMutex
	nest  = make(chan struct{}, 1)
	eggs  = 2
	laid  = sync.NewCond(&marsh)
	fish  = map[int]int{}
	truth *os.File
)

func monotonic() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

//go:noinline
func bitternAsk(peer net.Conn) {
	answer := []byte{88}
	peer.Write(answer)
	if _, err := peer.Read(answer); err != nil {
		os.Exit(0)
	}
}

//go:noinline
func egretSave(file *os.File) {
	block := make([]byte, 1<<20)
	for end := time.Now().Add(70 * time.Millisecond); time.Now().Before(end); {
		file.WriteAt(block, 0)
		file.Sync()
	}
}

func taken() {
	marsh.Lock()
	for eggs == 0 {
		laid.Wait()
	}
	eggs--
	marsh.Unlock()
}

func givenBack(count int) {
	marsh.Lock()
	eggs += count
	marsh.Unlock()
	laid.Broadcast()
}

//go:noinline
func snipeRound(peer net.Conn, file *os.File) {
	switch {
	case kind == "mutex" && !fixed:
		marsh.Lock()
		bitternAsk(peer)
		fish[0]++
		marsh.Unlock()
	case kind == "chain" && !fixed:
		reeds.Lock()
		egretSave(file)
		reeds.Unlock()
	case kind == "cond" && !fixed:
		taken()
		taken()
		bitternAsk(peer)
		givenBack(2)
	case kind == "gate" && !fixed:
		nest <- struct{}{}
		spin(50 * time.Millisecond)
		<-nest
	case kind == "chain":
		egretSave(file)
	case kind == "gate":
		spin(50 * time.Millisecond)
	default:
		bitternAsk(peer)
	}
}

func waded(me int) {
	spin(130 * time.Microsecond)
	switch kind {
	case "cond":
		taken()
		spin(20 * time.Microsecond)
		givenBack(1)
	case "gate":
		nest <- struct{}{}
		fish[me]++
		<-nest
	default:
		marsh.Lock()
		fish[me]++
		marsh.Unlock()
	}
}

func serve(conn net.Conn, me int) {
	lines := bufio.NewReader(conn)
	for {
		if _, err := lines.ReadString('\n'); err != nil {
			return
		}
		start := monotonic()
		waded(me)
		end := monotonic()
		fmt.Fprintln(conn, "ok")
		if end-start > 3_000_000 {
			fmt.Fprintf(truth, "stall %d %d %d\n", me, start, end)
		}
	}
}

// Takes the second lock inside the first.
func outer() {
	for {
		time.Sleep(4 * time.Millisecond)
		marsh.Lock()
		reeds.RLock()
		fish[1]++
		reeds.RUnlock()
		marsh.Unlock()
	}
}

func farSide(server string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(4)
	}
	fmt.Println(listener.Addr())
	for me := range 12 {
		go func() {
			conn, err := net.Dial("tcp", server)
			if err != nil {
				os.Exit(4)
			}
			lines := bufio.NewReader(conn)
			for {
				time.Sleep(time.Duration(5000+me*277) * time.Microsecond)
				fmt.Fprintln(conn, "line")
				if _, err := lines.ReadString('\n'); err != nil {
					os.Exit(0)
				}
			}
		}()
	}
	peer, _ := listener.Accept()
	for ms := make([]byte, 1); ; {
		if _, err := peer.Read(ms); err != nil {
			return
		}
		time.Sleep(time.Duration(ms[0]) * time.Millisecond)
		peer.Write(ms)
	}
}

func main() {
	path, second := os.Args[1], os.Args[2]
	if second == "far" {
		farSide(path)
		return
	}
	seconds, _ := strconv.ParseFloat(second, 64)
	kind = os.Args[3]
	for _, word := range os.Args[4:] {
		fixed = fixed || word == "fixed"
	}
	truth, _ = os.Create(path)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(4)
	}
	go func() {
		for me := 2; ; me++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn, me)
		}
	}()
	own, _ := os.Executable()
	other := exec.Command(own, listener.Addr().String(), "far")
	out, _ := other.StdoutPipe()
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	other.Start()
	var address string
	fmt.Fscanln(out, &address)
	peer, err := net.Dial("tcp", address)
	if err != nil {
		os.Exit(4)
	}
	file, _ := os.Create(path + ".data")
	os.Remove(path + ".data")
	if kind == "chain" {
		go outer()
	}
	go func() {
		for {
			time.Sleep(660 * time.Millisecond)
			snipeRound(peer, file)
		}
	}()
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	other.Process.Kill()
}
