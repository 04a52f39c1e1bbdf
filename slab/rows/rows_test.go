package rows

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/highwater-rs/highwater/slab"
	"github.com/highwater-rs/highwater/slab/slabtest"
)

func newAssembler(t *testing.T, original, parity int) *Assembler {
	t.Helper()
	a, err := NewAssembler(Options{Original: original, Parity: parity})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	p, s := a.Pools()
	slabtest.NoLeaks(t, p)
	slabtest.NoLeaks(t, s)
	return a
}

func randomBytes(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// joined is header, data and zeros, as the original rows hold them.
func joined(t *testing.T, x *Assembly, original int) []byte {
	t.Helper()
	var all []byte
	for i := range original {
		row, err := x.Row(i)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row...)
	}
	return all
}

func TestLayout(t *testing.T) {
	const k, n = 8, 16
	a := newAssembler(t, k, n)
	for _, rowSize := range []int{64, 128, 4096} {
		for _, offset := range []int{0, 1, 33, 64} {
			for _, length := range []int{0, 1, rowSize - offset, rowSize, 3*rowSize + 5, k*rowSize - offset - 1, k*rowSize - offset} {
				data := randomBytes(uint64(length), length)
				x, err := a.Assemble(data, rowSize, offset)
				if err != nil {
					t.Fatal(rowSize, offset, length, err)
				}
				want := make([]byte, k*rowSize)
				copy(want[offset:], data)
				if !bytes.Equal(joined(t, x, k), want) {
					t.Fatalf("rows of %d, offset %d, %d bytes: wrong content", rowSize, offset, length)
				}
				all := x.Rows()
				if len(all) != k+n {
					t.Fatalf("%d rows", len(all))
				}
				for i, row := range all {
					if len(row) != rowSize || cap(row) != rowSize {
						t.Fatalf("row %d: len %d cap %d", i, len(row), cap(row))
					}
					if i >= k {
						row[0] = byte(i) // parity is ours to write
					}
				}
				if err := x.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Full rows in the middle are the caller's memory.
func TestNoCopy(t *testing.T) {
	a := newAssembler(t, 8, 8)
	data := randomBytes(1, 5*64)
	x, err := a.Assemble(data, 64, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 5; i++ {
		row, _ := x.Row(i)
		if &row[0] != &data[64*i-10] {
			t.Fatalf("row %d was copied", i)
		}
	}
	first, _ := x.Row(0)
	last, _ := x.Row(5)
	if &first[10] == &data[0] || &last[0] == &data[5*64-10] {
		t.Fatal("the first and the last row must be copies")
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPartialRelease(t *testing.T) {
	const k, n = 6, 10
	a := newAssembler(t, k, n)
	parity, _ := a.Pools()
	x, err := a.Assemble(randomBytes(1, 300), 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Free([]int{k, 0, 2, 4}); err != nil {
		t.Fatal(err)
	}
	if x.Rows() != nil {
		t.Fatal("a consumed assembly gives rows to encode")
	}
	for _, bad := range []struct {
		idx  []int
		want error
	}{{[]int{1, 2}, slab.ErrReleased}, {[]int{1, k + n}, slab.ErrRow}, {[]int{1, -1}, slab.ErrRow},
		{[]int{1, 1}, slab.ErrReleased}} {
		if err := x.Free(bad.idx); !errors.Is(err, bad.want) {
			t.Fatalf("%v: %v", bad.idx, err)
		}
	}
	if _, err := x.Row(1); err != nil || x.Released(1) {
		t.Fatal("a refused release released row 1:", err)
	}
	if _, err := x.Row(k); !errors.Is(err, slab.ErrReleased) || !x.Released(k) {
		t.Fatal("row k:", err)
	}
	if _, err := x.Row(k + n); !errors.Is(err, slab.ErrRow) || !x.Released(-1) {
		t.Fatal("no such row:", err)
	}
	if err := x.Free([]int{}); err != nil {
		t.Fatal(err)
	}
	var rest []int
	for i := range k + n {
		if !x.Released(i) {
			rest = append(rest, i)
		}
	}
	if err := x.Free(rest); err != nil {
		t.Fatal(err)
	}
	if s := parity.Stats(); s.Leases != 0 {
		t.Fatal("the last row did not give the memory back")
	}
	if err := x.Free([]int{1}); !errors.Is(err, slab.ErrReleased) {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal("the one Close that is still good:", err)
	}
	if err := x.Close(); !errors.Is(err, slab.ErrReleased) {
		t.Fatal(err)
	}
	if err := x.Free([]int{1}); !errors.Is(err, slab.ErrReleased) {
		t.Fatal(err)
	}
	if x.Rows() != nil {
		t.Fatal("rows after Close")
	}
	if _, err := x.Row(1); !errors.Is(err, slab.ErrReleased) {
		t.Fatal(err)
	}
}

func TestTerminalRelease(t *testing.T) {
	a := newAssembler(t, 4, 4)
	x, err := a.Assemble(randomBytes(1, 200), 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Free([]int{5}); err != nil {
		t.Fatal(err)
	}
	if err := x.Free(nil); err != nil { // with a row released and others not
		t.Fatal(err)
	}
	for i := range 8 {
		if !x.Released(i) {
			t.Fatalf("row %d is not released", i)
		}
	}
	if err := x.Free(nil); !errors.Is(err, slab.ErrReleased) {
		t.Fatal(err)
	}
}

// Receivers read and release their own rows at once; the contents stay until each row's release.
func TestReadersWhileOthersRelease(t *testing.T) {
	const k, n, receivers, rowSize = 32, 96, 16, 256
	a := newAssembler(t, k, n)
	for round := range uint64(20) {
		data := randomBytes(round, k*rowSize-17)
		x, err := a.Assemble(data, rowSize, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range x.Rows()[k:] {
			for j := range row {
				row[j] = byte(i + int(round))
			}
		}
		order := rand.New(rand.NewPCG(round, 2)).Perm(k + n)
		var wg sync.WaitGroup
		for r := range receivers {
			wg.Go(func() {
				for _, i := range order[r*(k+n)/receivers : (r+1)*(k+n)/receivers] {
					row, err := x.Row(i)
					if err != nil {
						t.Error(err)
						return
					}
					if i >= k && (row[0] != byte(i-k+int(round)) || row[rowSize-1] != row[0]) {
						t.Errorf("row %d changed", i)
					}
					if i < k-1 && !bytes.Equal(row, data[i*rowSize:(i+1)*rowSize]) {
						t.Errorf("row %d changed", i)
					}
					if err := x.Free([]int{i}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadInput(t *testing.T) {
	for _, o := range []Options{{}, {Original: 1}, {Parity: 1}, {Original: -1, Parity: 1}} {
		if _, err := NewAssembler(o); !errors.Is(err, slab.ErrOptions) {
			t.Fatalf("%+v: %v", o, err)
		}
	}
	p, err := slab.New(slab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := NewAssembler(Options{Original: 1, Parity: 1, Pool: p, Scratch: p}); !errors.Is(err, slab.ErrOptions) {
		t.Fatal(err)
	}
	a := newAssembler(t, 4, 4)
	for _, c := range []struct{ length, rowSize, offset int }{{1, 0, 0}, {1, -64, 0}, {1, 63, 0},
		{1, 65, 0}, {257, 64, 0}, {250, 64, 7}, {1, 64, -1}, {1, 64, 65}, {1, math.MaxInt &^ 63, 0}} {
		if _, err := a.Assemble(make([]byte, c.length), c.rowSize, c.offset); !errors.Is(err, ErrData) {
			t.Fatalf("%+v: %v", c, err)
		}
	}
	capped, err := slab.New(slab.Options{Cap: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer capped.Close()
	b, err := NewAssembler(Options{Original: 4, Parity: 1000, Pool: capped})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Assemble(nil, 64, 0); err != nil && !errors.Is(err, slab.ErrCap) {
		t.Fatal(err)
	}
	if _, err := b.Assemble(nil, 128, 0); !errors.Is(err, slab.ErrCap) {
		t.Fatal(err)
	}
}

func TestSize(t *testing.T) {
	for _, c := range []struct{ length, offset, original, want int }{
		{0, 0, 4, 64}, {1, 0, 4, 64}, {256, 0, 4, 64}, {257, 0, 4, 128}, {256, 1, 4, 128},
		{128 << 20, 0, 4096, 32 << 10}, {1, 0, 0, 0}, {-1, 0, 4, 0}, {1, -1, 4, 0},
	} {
		if got := Size(c.length, c.offset, c.original); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
