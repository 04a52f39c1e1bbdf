package slab

import (
	"errors"
	"unsafe"
)

// heapMemory takes arenas from the Go heap: where there is no mmap, and where the race detector
// should see the rows (it knows the Go heap only). An arena goes back when the collector finds it.
type heapMemory struct{}

var errHeap = errors.New("the Go heap cannot do that")

func (heapMemory) reserve(n int) ([]byte, error) {
	b := make([]byte, n+pageSize)
	skip := roundUp(int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))&uintptr(pageSize-1)), pageSize)
	if skip != 0 {
		skip -= int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(pageSize-1))
	}
	return b[skip : skip+n : skip+n], nil
}

func (heapMemory) commit([]byte) error              { return nil }
func (heapMemory) discard([]byte) error             { return errHeap }
func (heapMemory) retract([]byte) error             { return nil }
func (heapMemory) protect([]byte, bool) error       { return errHeap }
func (heapMemory) resident(b []byte) (int64, error) { return int64(len(b)), nil }
func (heapMemory) advise([]byte, HugePages) error   { return nil }
func (heapMemory) release([]byte) error             { return nil }
func (heapMemory) whole() bool                      { return true }
func (heapMemory) unit() int                        { return 0 }
