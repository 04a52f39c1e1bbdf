// Package reedsolomon lends github.com/klauspost/reedsolomon its scratch from a slab pool.
package reedsolomon

import (
	"github.com/highwater-rs/highwater/slab"
	"github.com/klauspost/reedsolomon"
)

var _ reedsolomon.WorkAllocator = (*slab.WorkAllocator)(nil)

// WithPool makes a codec take its scratch from the pool: a sparse one, for the codec touches an
// eighth of what it asks for when it encodes. Only the leopard codecs use scratch.
func WithPool(p *slab.Pool) reedsolomon.Option {
	return reedsolomon.WithWorkAllocator(slab.Work(p))
}
