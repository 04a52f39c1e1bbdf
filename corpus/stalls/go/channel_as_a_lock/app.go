// Requests need the one token of a channel, as a lock; a goroutine works every 2.55 s. --fault compute: it keeps the
// token while it computes 140 ms. --fault sleep: it keeps it while it sleeps 170 ms. Healthy: it does both without
// the token.
package main

import (
	. "corpus/service"
	"time"
)

var (
	token  = make(chan struct{}, 1)
	boards [256]uint64
)

//go:noinline
func recomputeBoards() {
	x := Spin(Rounds(140000), boards[3])
	boards[x&255] = x
}

//go:noinline
func awaitReplica() {
	time.Sleep(170 * time.Millisecond)
	boards[1]++
}

//go:noinline
func countRequest(id uint64) {
	token <- struct{}{}
	boards[id&255]++
	<-token
}

func runMaintenance() {
	healthy := *Fault == "none"
	for count := 0; ; count++ {
		time.Sleep(2550 * time.Millisecond)
		if !healthy {
			token <- struct{}{}
		}
		if *Fault == "compute" || healthy && count%2 == 0 {
			recomputeBoards()
		} else {
			awaitReplica()
		}
		if !healthy {
			<-token
		}
	}
}

func main() {
	Start(160, 300, 12)
	go runMaintenance()
	Serve(func(_ int, id uint64) {
		Spin(Rounds(*Work), id)
		countRequest(id)
	})
}
