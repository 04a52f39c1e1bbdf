// lease keeper (pure Go): each lease arms a timer of an hour whose closure holds the lease's pages; a released lease forgets to stop it
package main

import (
	"fmt"
	"time"
)

type lease struct {
	id    int
	pages [][]byte
	timer *time.Timer
}

func grant(id int) *lease {
	l := &lease{id: id}
	for i := 0; i < 1+id%4; i++ {
		p := make([]byte, 2000+id*31%5000)
		p[id%len(p)] = 1
		l.pages = append(l.pages, p)
	}
	l.timer = time.AfterFunc(time.Hour, func() { fmt.Println("expired", l.id, len(l.pages)) })
	return l
}

func main() {
	start := time.Now()
	active := make([]*lease, 900)
	total := 0
	for id := 0; time.Since(start) < 150*time.Second; id++ {
		i := id * 7 % len(active)
		if old := active[i]; old != nil {
			if old.id%5 != 0 {
				old.timer.Stop()
			}
			total += len(old.pages)
		}
		active[i] = grant(id)
		s := make([]string, 0, 30)
		for k := 0; k < 30; k++ {
			s = append(s, fmt.Sprint(id, k))
		}
		total += len(s)
		time.Sleep(1200 * time.Microsecond)
	}
	fmt.Println(total)
}
