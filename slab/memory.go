package slab

import "os"

// memory is where arenas come from: the kernel, the Go heap, or a test that fails on purpose.
// Every slice that is passed back is cut from one that reserve returned, at page boundaries.
type memory interface {
	// reserve returns n bytes of addresses, page-aligned, zeroed when committed. Reading or
	// writing them before commit faults.
	reserve(n int) ([]byte, error)
	// commit makes addresses readable and writable.
	commit(b []byte) error
	// discard gives the pages back; the addresses stay committed and read as zero.
	discard(b []byte) error
	// retract undoes reserve's commit: pages and commit charge go, the addresses stay.
	retract(b []byte) error
	// protect makes committed memory fault on every access, or undoes that.
	protect(b []byte, on bool) error
	// resident counts the bytes of b that are in RAM.
	resident(b []byte) (int64, error)
	// advise tells the kernel how to page b.
	advise(b []byte, huge HugePages) error
	// release ends the addresses.
	release(b []byte) error
	// whole: arenas cannot be cut or given back in part (the Go heap).
	whole() bool
	// unit is how many bytes of addresses to reserve at once.
	unit() int
}

var pageSize = os.Getpagesize()

// roundUp rounds n up to a multiple of m, a power of two.
func roundUp(n, m int) int { return (n + m - 1) &^ (m - 1) }
