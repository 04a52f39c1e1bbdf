package grpcmem

import (
	"bytes"
	"testing"

	"github.com/highwater-rs/highwater/slab"
	"google.golang.org/grpc/mem"
)

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

func TestGetPut(t *testing.T) {
	p := newPool(t, slab.Options{})
	b := New(p)
	for _, n := range []int{0, 1, 100, Threshold - 1, Threshold, Threshold + 1, 1 << 20, 3<<20 + 17} {
		buffer := b.Get(n)
		if len(*buffer) != n {
			t.Fatalf("%d bytes, want %d", len(*buffer), n)
		}
		if want := n >= Threshold; want != (p.Stats().Leases == 1) {
			t.Fatalf("%d bytes: leased %v, want %v", n, !want, want)
		}
		*buffer = (*buffer)[:n/2] // gRPC shortens buffers
		b.Put(buffer)
		if p.Stats().Leases != 0 {
			t.Fatalf("%d bytes were not taken back", n)
		}
	}
	b.Put(nil)
	b.Put(&[]byte{})
	foreign := make([]byte, 1<<20)
	b.Put(&foreign) // gRPC's own pool takes it
}

// The pool serves gRPC's own buffers, with their reference counts.
func TestBuffers(t *testing.T) {
	p := newPool(t, slab.Options{})
	b := New(p)
	data := bytes.Repeat([]byte{5}, 1<<20)
	buffer := mem.Copy(data, b)
	buffer.Ref()
	buffer.Free()
	if p.Stats().Leases != 1 || !bytes.Equal(buffer.ReadOnlyData(), data) {
		t.Fatalf("%+v", p.Stats())
	}
	buffer.Free()
	if p.Stats().Leases != 0 {
		t.Fatal("the last reference did not give the buffer back")
	}
	slices, err := mem.ReadAll(bytes.NewReader(data), b)
	if err != nil || slices.Len() != len(data) {
		t.Fatal(slices.Len(), err)
	}
	slices.Free()
	if p.Stats().Leases != 0 {
		t.Fatal("ReadAll kept a buffer")
	}
}

func TestDoublePut(t *testing.T) {
	b := New(newPool(t, slab.Options{}))
	buffer := b.Get(1 << 20)
	b.Put(buffer)
	defer func() {
		if recover() == nil {
			t.Fatal("a second Put went through")
		}
	}()
	b.Put(buffer)
}

// Without room the bytes come from gRPC's pool.
func TestCap(t *testing.T) {
	p := newPool(t, slab.Options{Cap: 1 << 20})
	b := New(p)
	buffer := b.Get(4 << 20)
	if len(*buffer) != 4<<20 || p.Stats().Leases != 0 {
		t.Fatal(len(*buffer), p.Stats())
	}
	b.Put(buffer)
}

// Lengths within a quarter of a power of two share one length.
func TestRoundUp(t *testing.T) {
	for n := Threshold; n < 1<<22; n += 4099 {
		up := roundUp(n)
		if up < n || up > n+n/4 || roundUp(up) != up {
			t.Fatalf("%d becomes %d", n, up)
		}
	}
}
