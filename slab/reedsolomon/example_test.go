package reedsolomon_test

import (
	"fmt"

	"github.com/highwater-rs/highwater/slab/rows"
	"github.com/klauspost/reedsolomon"
)

// A blob is encoded over the caller's bytes and sent to receivers; each releases its rows.
func Example() {
	const original, parity = 300, 700
	a, err := rows.NewAssembler(rows.Options{Original: original, Parity: parity})
	if err != nil {
		panic(err)
	}
	defer a.Close()
	codec, err := reedsolomon.New(original, parity, reedsolomon.WithLeopardGF16(true),
		reedsolomon.WithWorkAllocator(a.Work()))
	if err != nil {
		panic(err)
	}
	data := make([]byte, 1<<20)
	x, err := a.Assemble(data, rows.Size(len(data), 0, original), 0)
	if err != nil {
		panic(err)
	}
	defer x.Close()
	if err := codec.Encode(x.Rows()); err != nil {
		panic(err)
	}
	fmt.Println(x.Free([]int{999, 0, 300}), x.Released(300), x.Released(301))
	// Output: <nil> true false
}
