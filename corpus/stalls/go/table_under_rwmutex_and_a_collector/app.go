// Six workers take connections from a channel; a request reads a table under a sync.RWMutex and then passes one
// collector goroutine. --fault fsync: a keeper write-locks the table over 170 ms of small fsyncs, every 2.8 s.
// --fault collector: the collector does 160 ms of fsyncs itself, every 2.9 s. Healthy: the keeper syncs outside the
// lock.
package main

import (
	. "corpus/service"
	"net"
	"os"
	"sync"
	"time"
)

type job struct {
	id   uint64
	done chan bool
}

var (
	mutex       sync.RWMutex
	table       [512]uint64
	toCollector = make(chan job)
)

//go:noinline
func writeManifest(file *os.File, ms int) (count uint64) {
	var block [4096]byte
	start := time.Now()
	for time.Since(start) < time.Duration(ms)*time.Millisecond {
		file.WriteAt(block[:], int64(count%512)*4096)
		file.Sync()
		count++
	}
	return count
}

//go:noinline
func readTable(id uint64) uint64 {
	mutex.RLock()
	row := table[id&511]
	row += Burn(50) & 1
	mutex.RUnlock()
	return row
}

//go:noinline
func settleCounts(file *os.File, ms int) uint64 { return writeManifest(file, ms) + 1 }

func collectResults(file *os.File) {
	next := time.Now().Add(3 * time.Second)
	for job := range toCollector {
		if *Fault == "collector" && time.Now().After(next) {
			Sink += settleCounts(file, 160)
			next = time.Now().Add(2700 * time.Millisecond)
		}
		job.done <- true
	}
}

func keepManifest(file *os.File) {
	for {
		time.Sleep(2800 * time.Millisecond)
		switch *Fault {
		case "fsync":
			mutex.Lock()
			table[1] += writeManifest(file, 170)
			mutex.Unlock()
		case "collector":
		default:
			Sink += writeManifest(file, 170)
		}
	}
}

func work(connections chan net.Conn) {
	done := make(chan bool, 1)
	for conn := range connections {
		var request Request
		if request.Read(conn) {
			Sink += Burn(*Work) + readTable(request.ID())
			toCollector <- job{request.ID(), done}
			<-done
			conn.Write(request[:])
		}
		conn.Close()
	}
}

func main() {
	Start(150, 350, 9)
	listener := Listen()
	connections := make(chan net.Conn, 64)
	for range 6 {
		go work(connections)
	}
	go collectResults(CreateFile("counts"))
	go keepManifest(CreateFile("manifest"))
	StartLoad("connect")
	Accept(listener, func(conn net.Conn) { connections <- conn })
}
