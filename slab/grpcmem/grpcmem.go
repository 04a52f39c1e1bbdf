// Package grpcmem lends gRPC its message buffers from a slab pool.
package grpcmem

import (
	"math/bits"
	"sync"
	"unsafe"

	"github.com/highwater-rs/highwater/slab"
	"google.golang.org/grpc/mem"
)

// Threshold: shorter buffers come from gRPC's default pool; a lease has whole pages.
const Threshold = 64 << 10

// sizesPerDoubling: lengths are rounded up to a quarter of a power of two, so that messages of
// about one length share their memory. It wastes addresses; pages that are not written stay out.
const sizesPerDoubling = 4

// BufferPool is a mem.BufferPool. Buffers hold whatever the last message left there; gRPC writes
// before it reads. Where the pool has no room (its cap, no memory) buffers come from gRPC's own.
type BufferPool struct {
	pool  *slab.Pool
	small mem.BufferPool

	mu   sync.Mutex
	lent map[*byte]*slab.Lease // by the first byte
}

var _ mem.BufferPool = (*BufferPool)(nil)

// New makes a buffer pool on a slab pool, which may be shared with other users.
func New(p *slab.Pool) *BufferPool {
	return &BufferPool{pool: p, small: mem.DefaultBufferPool(), lent: map[*byte]*slab.Lease{}}
}

// Get returns a buffer of that length.
func (b *BufferPool) Get(length int) *[]byte {
	if length < Threshold {
		return b.small.Get(length)
	}
	l, err := b.pool.Get(1, roundUp(length))
	if err != nil {
		return b.small.Get(length)
	}
	buffer := l.Bytes()[:length]
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lent[unsafe.SliceData(buffer)] = l
	return &buffer
}

// Put takes back what Get returned, or a prefix of it. What is not ours goes to gRPC's pool, so
// memory of a slab pool never does: a second Put of the same buffer must not happen, as everywhere
// in gRPC; it panics.
func (b *BufferPool) Put(buffer *[]byte) {
	if buffer == nil || cap(*buffer) == 0 {
		return
	}
	first := unsafe.SliceData(*buffer)
	b.mu.Lock()
	l, ours := b.lent[first]
	delete(b.lent, first)
	b.mu.Unlock()
	switch {
	case ours:
		if err := l.Close(); err != nil {
			panic(err)
		}
	case slab.Explain(uintptr(unsafe.Pointer(first))) != "":
		panic("grpcmem: Put of a buffer that is not lent: put back twice, or not its beginning")
	default:
		b.small.Put(buffer)
	}
}

func roundUp(length int) int {
	quantum := max(1<<(bits.Len(uint(length-1))-1)/sizesPerDoubling, 1)
	return (length + quantum - 1) / quantum * quantum
}
