// Package slab is a pool for large buffers that have an end of life.
//
// Erasure coding, media, compression, snapshots: buffers of megabytes that live for milliseconds to
// seconds. The Go heap keeps several times what such a service uses at any moment: [sync.Pool] is
// emptied by the collector, fresh buffers double the heap before it runs, and what is freed lingers.
// This pool maps its memory itself, and keeps one promise:
//
//	bytes in use + dirty bytes kept for reuse <= the highest bytes in use of the last 10 seconds
//
// The bound holds at every moment, whatever sizes are mixed, and what it forbids is given back to the
// kernel before anything new is handed out. After the load stops everything goes back within the
// window. There is nothing else to tune.
//
//	p, err := slab.New(slab.Options{Name: "parity"})
//	l, err := p.Get(16384, 2048)  // 16,384 rows of 2 KiB
//	rows := l.Rows()              // or l.Row(i), l.Bytes()
//	...
//	err = l.Free(sent)            // rows that a receiver is done with
//	err = l.Close()               // whatever is left
//
// # When to use it
//
// Buffers from about 64 KiB up, with a moment at which they are certainly done with, in a process
// whose resident memory matters.
//
// # When not
//
// Small objects (a lease has whole pages); data whose end nobody knows (leave it to the collector);
// memory that holds Go pointers: the collector does not see into it, so store plain bytes only.
//
// # Contents
//
// A lease holds whatever the last one left there, of this pool and hence of this process, unless
// Options.Zero is set. Codecs that overwrite their output do not need zeroes.
//
// # Misuse
//
// A lease is used once. A second Close, a row released twice, rows of another pool, of another lease,
// from the middle of a row or from elsewhere are errors (or panics, with Options.Panic), are counted
// in [Stats], and never reach anyone else's memory. What no production check can find is reading or
// writing through a slice after its release; for that there are the debug modes [Guard], [Poison] and
// [Stacks], by Options.Debug, the variable [Debug], or SLAB_DEBUG=all in the environment. Package
// slabtest finds leases that were not closed.
//
// # Scratch
//
// A codec may ask for eight times what it touches. A sparse pool (Options.Sparse) counts what is
// really dirtied. Keep it apart from other pools. [Work] lends such scratch to
// github.com/klauspost/reedsolomon.
//
// # Platforms
//
// On Linux memory comes from mmap. Elsewhere, and with Options.GoHeap, it comes from the Go heap: the
// interface, the checks and the bound on what is kept are the same, but memory goes back when the
// collector runs, and in whole leases.
//
// # Processes
//
// A child process started with os/exec shares nothing that matters. Leases must not be used from a
// raw fork without exec, which Go does not support in any case.
package slab
