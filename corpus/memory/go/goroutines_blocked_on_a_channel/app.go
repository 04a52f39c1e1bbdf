// A search service. It asks two backends and takes the first answer. The channel has no buffer, so the backend that answers
// second waits for ever to send, and keeps its answer.
package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

type Hit struct {
	Title   string
	Snippet string
	Score   float64
}

type Answer struct {
	Backend string
	Hits    []Hit
}

var random = rand.New(rand.NewPCG(2, 2))

func queryBackend(name string, query int, titles []string, answers chan<- Answer) {
	source := rand.New(rand.NewPCG(uint64(query), 1))
	hits := make([]Hit, 40)
	for i := range hits {
		snippet := fmt.Sprintf("line %d: ... %x ...", source.IntN(900), source.Uint64())
		hits[i] = Hit{Title: titles[source.IntN(len(titles))], Snippet: snippet, Score: source.Float64()}
	}
	answers <- Answer{Backend: name, Hits: hits}
}

func handleSearch(titles []string) int {
	answers := make(chan Answer)
	query := random.IntN(1_000_000_000)
	go queryBackend("east", query, titles, answers)
	go queryBackend("west", query, titles, answers)
	first := <-answers
	return len(first.Hits)
}

func loadTitles(count int) []string {
	titles := make([]string, count)
	for i := range titles {
		titles[i] = fmt.Sprintf("title number %d of the author %d, edition %d", i, i%4001, i%7)
	}
	return titles
}

func main() {
	titles := loadTitles(250_000)
	fmt.Println("ready")
	for end := time.Now().Add(120 * time.Second); time.Now().Before(end); {
		handleSearch(titles)
		time.Sleep(time.Second / 160)
	}
}
