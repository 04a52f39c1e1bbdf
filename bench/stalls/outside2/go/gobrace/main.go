// Requests need the one peg of a channel. Faults: carve (the joiner keeps the peg while computing 140 ms every 2.7 s),
// rest (it keeps it while sleeping 170 ms). Mended: the same without the peg.
package main

import (
	"outside2/ox"
	"time"
)

var peg = make(chan struct{}, 1)
var boards [256]uint64

//go:noinline
func braceCarve() {
	x := ox.Spin(ox.Iters(140000), boards[3])
	boards[x&255] = x
}

//go:noinline
func braceRest() {
	time.Sleep(170 * time.Millisecond)
	boards[1]++
}

//go:noinline
func plane(id uint64) {
	peg <- struct{}{}
	boards[id&255]++
	<-peg
}

func joiner() {
	for k := 0; ; k++ {
		time.Sleep(2550 * time.Millisecond)
		f := *ox.Fault
		if f != "none" {
			peg <- struct{}{}
		}
		if f == "carve" || f == "none" && k%2 == 0 {
			braceCarve()
		} else {
			braceRest()
		}
		if f != "none" {
			<-peg
		}
	}
}

func main() {
	ox.Init()
	go joiner()
	ox.Serve(func(_ int, id uint64) {
		ox.Spin(ox.Iters(*ox.Work), id)
		plane(id)
	})
}
