//go:build !linux

package slab

// systemMemory: only Linux has the calls this package was measured with; elsewhere arenas come
// from the Go heap, and the pool still bounds, recycles and checks.
func systemMemory() memory { return heapMemory{} }
