// A request needs one of two slots, kept under a sync.Mutex and a sync.Cond. --fault slots: every 660 ms a goroutine
// takes both for a round trip of 88 ms. Healthy: it makes the round trip without a slot.
package main

import (
	. "corpus/service"
	"sync"
	"time"
)

var (
	mutex sync.Mutex
	freed = sync.NewCond(&mutex)
	slots = 2
)

func takeSlot() {
	mutex.Lock()
	for slots == 0 {
		freed.Wait()
	}
	slots--
	mutex.Unlock()
}

func returnSlots(count int) {
	mutex.Lock()
	slots += count
	mutex.Unlock()
	freed.Broadcast()
}

//go:noinline
func refreshPrices() {
	if *Fault != "slots" {
		Sink += uint64(AskPeer(88))
		return
	}
	takeSlot()
	takeSlot()
	Sink += uint64(AskPeer(88))
	returnSlots(2)
}

func main() {
	Start(900, 130, 12)
	StartPeer("peer")
	go func() {
		for {
			time.Sleep(660 * time.Millisecond)
			refreshPrices()
		}
	}()
	Serve(func(int, uint64) {
		Sink += Burn(*Work)
		takeSlot()
		Sink += Burn(20)
		returnSlots(1)
	})
}
