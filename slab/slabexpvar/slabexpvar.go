// Package slabexpvar publishes pools through the standard library's expvar, at /debug/vars.
package slabexpvar

import (
	"expvar"

	"github.com/highwater-rs/highwater/slab"
)

// Publish makes the pool's [slab.Stats] the variable of that name. Like expvar.Publish it ends the
// program if the name is taken.
func Publish(name string, p *slab.Pool) {
	expvar.Publish(name, expvar.Func(func() any { return p.Stats() }))
}
