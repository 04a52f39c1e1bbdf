// Requests count under a sync.Mutex; a goroutine takes a sync.RWMutex inside it every 4 ms. --fault fsync: a saver
// write-locks the RWMutex over 70 ms of fsyncs, every 660 ms, so that requests wait behind two locks. Healthy: it
// syncs without the lock.
package main

import (
	. "corpus/service"
	"os"
	"sync"
	"time"
)

var (
	countsMutex   sync.Mutex
	settingsMutex sync.RWMutex
	counts        = map[uint64]int{}
)

//go:noinline
func writeSettings(file *os.File) {
	block := make([]byte, 1<<20)
	for end := time.Now().Add(70 * time.Millisecond); time.Now().Before(end); {
		file.WriteAt(block, 0)
		file.Sync()
	}
}

//go:noinline
func saveSettings(file *os.File) {
	if *Fault == "fsync" {
		settingsMutex.Lock()
		defer settingsMutex.Unlock()
	}
	writeSettings(file)
}

// Takes the second lock inside the first.
func mergeCounts() {
	for {
		time.Sleep(4 * time.Millisecond)
		countsMutex.Lock()
		settingsMutex.RLock()
		counts[1]++
		settingsMutex.RUnlock()
		countsMutex.Unlock()
	}
}

func main() {
	Start(900, 130, 12)
	file := CreateFile("settings")
	go mergeCounts()
	go func() {
		for {
			time.Sleep(660 * time.Millisecond)
			saveSettings(file)
		}
	}()
	Serve(func(connection int, _ uint64) {
		Sink += Burn(*Work)
		countsMutex.Lock()
		counts[uint64(connection)+2]++
		countsMutex.Unlock()
	})
}
