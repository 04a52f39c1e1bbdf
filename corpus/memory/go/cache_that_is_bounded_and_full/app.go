// A picture service. Its cache holds 8,000 previews and is full from the start; each new one pushes the oldest out.
package main

import (
	"container/list"
	"fmt"
	"math/rand"
	"time"
)

type Preview struct {
	Picture int
	Title   string
	Pixels  []byte
}

type PreviewCache struct {
	bound  int
	order  *list.List
	byName map[int]*list.Element
}

func (c *PreviewCache) Get(picture int) *Preview {
	if element, known := c.byName[picture]; known {
		c.order.MoveToFront(element)
		return element.Value.(*Preview)
	}
	preview := renderPreview(picture)
	c.byName[picture] = c.order.PushFront(preview)
	if c.order.Len() > c.bound {
		oldest := c.order.Back()
		delete(c.byName, oldest.Value.(*Preview).Picture)
		c.order.Remove(oldest)
	}
	return preview
}

var random = rand.New(rand.NewSource(7))

func renderPreview(picture int) *Preview {
	pixels := make([]byte, 2048)
	random.Read(pixels)
	return &Preview{Picture: picture, Title: fmt.Sprintf("picture %d", picture), Pixels: pixels}
}

func handlePreview(cache *PreviewCache) int {
	return len(cache.Get(random.Intn(1_000_000)).Pixels)
}

func main() {
	cache := &PreviewCache{bound: 8_000, order: list.New(), byName: map[int]*list.Element{}}
	for i := 0; i < 60_000; i++ {
		handlePreview(cache)
	}
	fmt.Println("ready")
	for end := time.Now().Add(120 * time.Second); time.Now().Before(end); {
		handlePreview(cache)
		time.Sleep(time.Second / 900)
	}
}
