package slab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/highwater-rs/highwater/slab"
)

// A lease, its rows, and its end.
func Example() {
	p, err := slab.New(slab.Options{Name: "parity"})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	l, err := p.Get(16384, 2048)
	if err != nil {
		panic(err)
	}
	rows := l.Rows()
	copy(rows[7], "seven")
	fmt.Println(len(rows), len(rows[7]), p.Stats().InUse)
	fmt.Println(l.Close(), p.Stats().InUse)
	fmt.Println(l.Close())
	// Output:
	// 16384 2048 33554432
	// <nil> 0
	// slab: already released
}

// Receivers release the rows they have sent; the last one gives the memory back.
func ExampleLease_Free() {
	p, _ := slab.New(slab.Options{})
	defer p.Close()
	l, _ := p.Get(4, 4096)
	fmt.Println(l.Free([]int{3, 0}), l.Row(3) == nil, l.Row(1) == nil)
	err := l.Free([]int{0})
	fmt.Println(errors.Is(err, slab.ErrReleased))
	fmt.Println(l.Free([]int{1, 2}), p.Stats().Leases)
	// Output:
	// <nil> true false
	// true
	// <nil> 0
}

// The input is leased too: it counts for what was read, not for the limit.
func ExamplePool_ReadFrom() {
	p, _ := slab.New(slab.Options{})
	defer p.Close()
	l, err := p.ReadFrom(strings.NewReader("a blob"), 128<<20)
	if err != nil {
		panic(err)
	}
	defer l.Close()
	fmt.Println(len(l.Bytes()), p.Stats().InUse <= 1<<16)
	_, _ = l.WriteTo(os.Stdout)
	// Output:
	// 6 true
	// a blob
}

// At the cap Get fails, and GetContext waits for others to close.
func ExamplePool_GetContext() {
	p, _ := slab.New(slab.Options{Name: "bounded", Cap: 1 << 20})
	defer p.Close()
	l, _ := p.Get(1, 1<<20)
	_, err := p.Get(1, 1<<20)
	fmt.Println(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = p.GetContext(ctx, 1, 1<<20)
	fmt.Println(errors.Is(err, slab.ErrCap), errors.Is(err, context.DeadlineExceeded))
	_ = l.Close()
	// Output:
	// slab: cap reached: Get on pool "bounded", 1 rows of 1048576 bytes, 1048576 bytes, limit 1048576, 1048576 in use
	// true true
}

// Go's soft memory limit follows what the pools have resident.
func ExampleTieMemoryLimit() {
	p, _ := slab.New(slab.Options{})
	defer p.Close()
	untie, err := slab.TieMemoryLimit(4<<30, p)
	if err != nil {
		panic(err)
	}
	defer untie()
	// Output:
}
