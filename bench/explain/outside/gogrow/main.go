// Go rate limiter: one bucket per client address for ever; pure Go static binary
package main

import (
	"fmt"
	"time"
)

type bucket struct {
	tokens float64
	last   time.Time
	hist   []int32
}

var buckets = map[string]*bucket{}

func allow(k string) bool {
	b, ok := buckets[k]
	if !ok {
		b = &bucket{tokens: 10, hist: make([]int32, 250)}
		buckets[k] = b
	}
	b.tokens--
	b.last = time.Now()
	return b.tokens > 0
}
func main() {
	t0 := time.Now()
	n, ok := 0, 0
	var scratch [200][]byte
	for time.Since(t0) < 150*time.Second {
		for k := 0; k < 6; k++ {
			n++
			scratch[n%200] = make([]byte, 3000+n%6000)
			if allow(fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)) {
				ok++
			}
		}
		time.Sleep(12 * time.Millisecond)
	}
	fmt.Println(ok)
}
