// A conversion service. It holds a ballast so that collections are rare, and each request makes garbage only.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"time"
)

type Document struct {
	Number   int
	Title    string
	Sections []string
}

type Converter struct {
	ballast []byte
	titles  []string
	random  *rand.Rand
}

func (c *Converter) handleConvert(number int) int {
	document := Document{Number: number, Title: c.titles[number%len(c.titles)]}
	for i := 0; i < 40; i++ {
		document.Sections = append(document.Sections, fmt.Sprintf("section %d: %x", i, c.random.Int63()))
	}
	text, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	return len(text)
}

func loadTitles(count int) []string {
	titles := make([]string, count)
	for i := range titles {
		titles[i] = fmt.Sprintf("document number %d in the folder %d", i, i%500)
	}
	return titles
}

func main() {
	converter := &Converter{ballast: make([]byte, 30<<20), titles: loadTitles(200_000)}
	converter.random = rand.New(rand.NewSource(8))
	for i := 0; i < 15_000; i++ {
		converter.handleConvert(i)
	}
	fmt.Println("ready")
	number := 0
	for end := time.Now().Add(120 * time.Second); time.Now().Before(end); number++ {
		converter.handleConvert(number)
		time.Sleep(time.Second / 300)
	}
	fmt.Println("done, with a ballast of", len(converter.ballast))
}
