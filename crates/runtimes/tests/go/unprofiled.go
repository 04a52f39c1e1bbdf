// A program in which nothing reads the heap profile: the linker leaves it out.
package main

import (
	"bufio"
	"fmt"
	"os"
)

var kept [][]byte

func main() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		kept = append(kept, make([]byte, 4<<20))
		fmt.Println("done")
	}
}
