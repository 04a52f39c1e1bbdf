// Requests post to a ledger under one sync.Mutex; a goroutine works on the ledger every 2.6 s. --fault network: it
// makes a round trip of 210 ms with the mutex. --fault compute: it computes 140 ms with the mutex. Healthy: it does
// both on another ledger.
package main

import (
	. "corpus/service"
	"sync"
	"time"
)

type ledger struct {
	mutex sync.Mutex
	rows  [256]uint64
	total uint64
}

//go:noinline
func (l *ledger) uploadSnapshot(ms uint64) { l.total += uint64(AskPeer(ms)) }

//go:noinline
func (l *ledger) rebuildTotals(us int) { l.total = Spin(Rounds(us), l.total) }

//go:noinline
func (l *ledger) postEntry(id uint64) {
	l.mutex.Lock()
	l.rows[id&255]++
	Sink = Burn(60)
	l.mutex.Unlock()
}

func (l *ledger) runMaintenance() {
	other := &ledger{}
	for count := 0; ; count++ {
		time.Sleep(2600 * time.Millisecond)
		switch {
		case *Fault == "network":
			l.mutex.Lock()
			l.uploadSnapshot(210)
			l.mutex.Unlock()
		case *Fault == "compute":
			l.mutex.Lock()
			l.rebuildTotals(140000)
			l.mutex.Unlock()
		case count%2 == 0:
			other.uploadSnapshot(210)
		default:
			other.rebuildTotals(140000)
		}
	}
}

func main() {
	Start(180, 300, 10)
	StartPeer("peer")
	entries := &ledger{}
	go entries.runMaintenance()
	Serve(func(_ int, id uint64) {
		entries.postEntry(id + Burn(*Work)&1)
	})
}
