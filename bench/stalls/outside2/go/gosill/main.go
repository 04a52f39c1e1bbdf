// Requests look into a mapped file. Fault: cold (every 2.4 s its pages are dropped from the mapping and the cache; the
// next request of a third of the connections then walks 4000 pages of it, at most for 90 ms). Mended: walks as much,
// nothing dropped.
package main

import (
	"os"
	"outside2/ox"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

const size = 96 << 20

var (
	slab []byte
	turn atomic.Int64
	last [4096]int64
)

//go:noinline
func sillWalk(k int, id uint64) uint64 {
	var s uint64
	p := (id*7919 + uint64(k)*2003) % (size / 4096)
	end := time.Now().Add(90 * time.Millisecond)
	for i := 0; i < 4000 && (i%16 != 0 || time.Now().Before(end)); i++ {
		s += uint64(slab[p*4096])
		p = (p*5 + 1031) % (size / 4096)
	}
	return s
}

func draught(f *os.File) {
	for {
		time.Sleep(2400 * time.Millisecond)
		if *ox.Fault == "cold" {
			syscall.Madvise(slab, syscall.MADV_DONTNEED)
			syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, 4, 0, 0)
		}
		turn.Add(1)
	}
}

func main() {
	ox.Init()
	name := filepath.Join(*ox.Dir, "sill.big")
	if st, err := os.Stat(name); err != nil || st.Size() != size {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i * 7)
		}
		os.WriteFile(name, b, 0o644)
	}
	f, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	if w, err := os.OpenFile(name, os.O_RDWR, 0); err == nil {
		w.Sync()
		w.Close()
	}
	slab, err = syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	syscall.Madvise(slab, syscall.MADV_RANDOM)
	var s byte
	for i := 0; i < size; i += 4096 {
		s += slab[i]
	}
	ox.Sink += uint64(s)
	go draught(f)
	ox.Serve(func(k int, id uint64) {
		ox.Spin(ox.Iters(*ox.Work), id)
		if t := turn.Load(); last[k&4095] != t && (int64(k)+t)%3 == 0 {
			ox.Sink += sillWalk(k, id)
			last[k&4095] = t
		}
	})
}
