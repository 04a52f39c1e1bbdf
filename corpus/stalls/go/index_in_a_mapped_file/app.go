// Requests read an index in a mapped file. Every 2.4 s, the next request of a third of the connections walks 4000 of
// its pages, for 90 ms at most. --fault cold: the pages are dropped from the mapping and the page cache before that.
// Healthy: it walks as much, and nothing is dropped.
package main

import (
	. "corpus/service"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

const size, pageSize = 96 << 20, 4096

var (
	index    []byte
	turn     atomic.Int64
	lastTurn [4096]int64
)

//go:noinline
func scanPostings(connection int, id uint64) uint64 {
	var sum uint64
	page := (id*7919 + uint64(connection)*2003) % (size / pageSize)
	end := time.Now().Add(90 * time.Millisecond)
	for i := 0; i < 4000 && (i%16 != 0 || time.Now().Before(end)); i++ {
		sum += uint64(index[page*pageSize])
		page = (page*5 + 1031) % (size / pageSize)
	}
	return sum
}

func rotateIndex(file *os.File) {
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	for {
		time.Sleep(2400 * time.Millisecond)
		if *Fault == "cold" {
			syscall.Madvise(index, syscall.MADV_DONTNEED)
			syscall.Syscall6(syscall.SYS_FADVISE64, file.Fd(), 0, 0, dontNeed, 0, 0)
		}
		turn.Add(1)
	}
}

func writeIndex(name string) *os.File {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		panic(err)
	}
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7)
	}
	file.Write(data)
	file.Sync()
	return file
}

func mapIndex(file *os.File) {
	var err error
	if index, err = syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
		panic(err)
	}
	syscall.Madvise(index, syscall.MADV_RANDOM)
	for i := 0; i < size; i += pageSize {
		Sink += uint64(index[i])
	}
}

func main() {
	Start(160, 300, 12)
	file := writeIndex(filepath.Join(*Dir, "index"))
	mapIndex(file)
	go rotateIndex(file)
	Serve(func(connection int, id uint64) {
		Spin(Rounds(*Work), id)
		now, last := turn.Load(), &lastTurn[connection&4095]
		if *last != now && (int64(connection)+now)%3 == 0 {
			Sink += scanPostings(connection, id)
			*last = now
		}
	})
}
