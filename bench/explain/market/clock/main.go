// A clock in Go whose strikers wait for a bell that nobody rings.
package main

import "time"

func strike(bell chan int, hour int) {
	wheels := make([]byte, 3000)
	wheels[hour%3000] = 1
	<-bell
	wheels[0]++
}

func main() {
	bell := make(chan int)
	teeth := make([][]byte, 300)
	for n := 0; ; n++ {
		for i := 0; i < 4; i++ {
			go strike(bell, n)
		}
		for i := 0; i < 20; i++ {
			teeth[(n*20+i)%300] = make([]byte, 1000+i*50)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
