package reedsolomon

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/highwater-rs/highwater/slab"
	"github.com/highwater-rs/highwater/slab/rows"
	"github.com/klauspost/reedsolomon"
)

// noted counts what the codec asks for.
type noted struct {
	*slab.WorkAllocator
	pool       *slab.Pool
	rows, size int
	untouched  int64
}

func (n *noted) Get(rows, size int) [][]byte {
	n.rows, n.size = rows, size
	return n.WorkAllocator.Get(rows, size)
}

func (n *noted) Put(work [][]byte) {
	n.untouched = n.pool.Stats().AskedUntouched
	n.WorkAllocator.Put(work)
}

func newPool(t *testing.T, o slab.Options) *slab.Pool {
	t.Helper()
	p, err := slab.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func shards(seed uint64, k, n, size int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	all := reedsolomon.AllocAligned(k+n, size)
	for _, row := range all[:k] {
		for i := range row {
			row[i] = byte(rng.Uint32())
		}
	}
	return all
}

// Dirty scratch and dirty parity from the pool give what the codec's own fresh buffers give, and
// lost rows come back.
func TestEncodeAndReconstruct(t *testing.T) {
	const k, n = 300, 700
	p := newPool(t, slab.Options{Sparse: true})
	plain, err := reedsolomon.New(k, n, reedsolomon.WithLeopardGF16(true))
	if err != nil {
		t.Fatal(err)
	}
	pooled, err := reedsolomon.New(k, n, reedsolomon.WithLeopardGF16(true), WithPool(p))
	if err != nil {
		t.Fatal(err)
	}
	for round, size := range []int{64, 4096, 64, 8192, 128} {
		want := shards(uint64(round), k, n, size)
		got := shards(uint64(round), k, n, size)
		for _, row := range got[k:] {
			for i := range row {
				row[i] = 0xee
			}
		}
		if err := plain.Encode(want); err != nil {
			t.Fatal(err)
		}
		if err := pooled.Encode(got); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if !bytes.Equal(want[i], got[i]) {
				t.Fatalf("round %d: row %d differs", round, i)
			}
		}
		for i := 0; i < n; i++ {
			got[(i*7)%(k+n)] = nil
		}
		if err := pooled.Reconstruct(got); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if !bytes.Equal(want[i], got[i]) {
				t.Fatalf("round %d: row %d came back different", round, i)
			}
		}
	}
	if s := p.Stats(); s.Leases != 0 || s.Misuses != 0 || s.Gets == 0 {
		t.Fatalf("%+v", s)
	}
}

// The shape of the history: what this release of the codec asks for, and how little of it it
// touches. A change here changes what a sparse pool is worth.
func TestAskedAndTouched(t *testing.T) {
	const k, n, size = 4096, 12288, 4096
	p := newPool(t, slab.Options{Sparse: true})
	w := &noted{WorkAllocator: slab.Work(p), pool: p}
	codec, err := reedsolomon.New(k, n, reedsolomon.WithLeopardGF16(true), reedsolomon.WithWorkAllocator(w))
	if err != nil {
		t.Fatal(err)
	}
	a, err := rows.NewAssembler(rows.Options{Original: k, Parity: n})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	x, err := a.Assemble(make([]byte, k*size), size, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := codec.Encode(x.Rows()); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if w.rows != 32768 {
		t.Fatalf("%d work rows were asked for, 32768 in release 1.14.2", w.rows)
	}
	asked := int64(w.rows) * int64(w.size)
	if touched := asked - w.untouched; touched > asked*14/100 || touched < asked*11/100 {
		t.Fatalf("%d of %d bytes were touched; an eighth in release 1.14.2", touched, asked)
	}
}

// Where the pool cannot give scratch, the codec says so; nothing is touched.
func TestRefused(t *testing.T) {
	p := newPool(t, slab.Options{Cap: 1 << 16})
	codec, err := reedsolomon.New(300, 700, reedsolomon.WithLeopardGF16(true), WithPool(p))
	if err != nil {
		t.Fatal(err)
	}
	if err := codec.Encode(shards(1, 300, 700, 4096)); err == nil {
		t.Fatal("encoded without scratch")
	}
}
