// Requests append to a batch under a sync.Mutex; another process reads what is sent to it slowly. --fault write:
// every 750 ms a goroutine writes the batch to that process with the mutex, 600 kB more than the socket holds.
// --fault beside is healthy too: a goroutine that no request waits for computes, writes and sleeps. Healthy: the
// batch is taken out under the mutex and written after.
package main

import (
	. "corpus/service"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

type shipper struct {
	mutex  sync.Mutex
	batch  []byte
	reader *net.TCPConn
}

//go:noinline
func (s *shipper) shipBatch() {
	s.mutex.Lock()
	batch := s.batch
	s.batch = nil
	if *Fault != "write" {
		s.mutex.Unlock()
		s.reader.Write(batch)
		return
	}
	defer s.mutex.Unlock()
	s.reader.Write(append(batch, make([]byte, 600_000)...))
}

func (s *shipper) workBeside() {
	for range time.Tick(300 * time.Millisecond) {
		Sink += Burn(40_000)
		s.reader.Write(make([]byte, 100))
		time.Sleep(150 * time.Millisecond)
	}
}

// The other process: it rests between its reads.
func readSlowly(address string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		os.Exit(4)
	}
	conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	for data := make([]byte, 40_000); ; time.Sleep(8 * time.Millisecond) {
		if _, err := conn.Read(data); err != nil {
			os.Exit(0)
		}
	}
}

func startReader() *net.TCPConn {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	reader := exec.Command("/proc/self/exe", "reader", listener.Addr().String())
	reader.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := reader.Start(); err != nil {
		panic(err)
	}
	conn, _ := listener.Accept()
	conn.(*net.TCPConn).SetWriteBuffer(16 << 10)
	return conn.(*net.TCPConn)
}

func main() {
	if os.Args[1] == "reader" {
		readSlowly(os.Args[2])
	}
	Start(1000, 180, 10)
	lines := &shipper{reader: startReader()}
	if *Fault == "beside" {
		go lines.workBeside()
	} else {
		go func() {
			for range time.Tick(750 * time.Millisecond) {
				lines.shipBatch()
			}
		}()
	}
	Serve(func(_ int, id uint64) {
		Sink += Burn(*Work)
		lines.mutex.Lock()
		lines.batch = append(lines.batch, byte(id))
		lines.mutex.Unlock()
	})
}
