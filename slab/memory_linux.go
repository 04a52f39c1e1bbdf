package slab

import (
	"syscall"
	"unsafe"
)

// Addresses reserved at once: enough that a pool has one arena, cheap because they are PROT_NONE
// (no page, no page table, no commit charge). Where addresses are limited, little.
const (
	unit64Bit   = 64 << 30
	unit32Bit   = 64 << 20
	unitLimited = 64 << 20
)

// kernelMemory is private anonymous mmap.
type kernelMemory struct{}

func systemMemory() memory { return kernelMemory{} }

func (kernelMemory) whole() bool { return false }

func (kernelMemory) unit() int {
	const infinity = ^uint64(0) >> 1 // RLIM_INFINITY is all ones; some kernels say half of it
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_AS, &limit)
	if err == nil && uint64(limit.Cur) < infinity {
		return unitLimited
	}
	if unsafe.Sizeof(uintptr(0)) < 8 {
		return unit32Bit
	}
	u := uint64(unit64Bit)
	return int(u)
}

func (kernelMemory) reserve(n int) ([]byte, error) {
	flags := syscall.MAP_PRIVATE | syscall.MAP_ANON | syscall.MAP_NORESERVE
	return syscall.Mmap(-1, 0, n, syscall.PROT_NONE, flags)
}

func (kernelMemory) commit(b []byte) error {
	return syscall.Mprotect(b, syscall.PROT_READ|syscall.PROT_WRITE)
}

func (kernelMemory) discard(b []byte) error {
	return syscall.Madvise(b, syscall.MADV_DONTNEED)
}

// retract maps fresh PROT_NONE addresses over b: unlike mprotect this gives back the commit
// charge, which counts under vm.overcommit_memory=2.
func (kernelMemory) retract(b []byte) error {
	flags := syscall.MAP_PRIVATE | syscall.MAP_ANON | syscall.MAP_NORESERVE | syscall.MAP_FIXED
	_, _, errno := syscall.Syscall6(sysMmap, addressOf(b), uintptr(len(b)),
		syscall.PROT_NONE, uintptr(flags), ^uintptr(0), 0)
	return errnoError(errno)
}

func (kernelMemory) protect(b []byte, on bool) error {
	if on {
		return syscall.Mprotect(b, syscall.PROT_NONE)
	}
	return syscall.Mprotect(b, syscall.PROT_READ|syscall.PROT_WRITE)
}

// residentStep: bytes asked about with one mincore call; its answer is one byte per page.
const residentStep = 64 << 20

func (kernelMemory) resident(b []byte) (int64, error) {
	pages := make([]byte, (min(len(b), residentStep)+pageSize-1)/pageSize)
	var count int64
	for len(b) > 0 {
		n := min(len(b), residentStep)
		_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, addressOf(b), uintptr(n),
			uintptr(unsafe.Pointer(&pages[0])))
		if errno != 0 {
			return 0, errno
		}
		for _, page := range pages[:(n+pageSize-1)/pageSize] {
			count += int64(page & 1)
		}
		b = b[n:]
	}
	return count * int64(pageSize), nil
}

func (kernelMemory) advise(b []byte, huge HugePages) error {
	switch huge {
	case Advise:
		return syscall.Madvise(b, syscall.MADV_HUGEPAGE)
	case Refuse:
		return syscall.Madvise(b, syscall.MADV_NOHUGEPAGE)
	}
	return nil
}

func (kernelMemory) release(b []byte) error { return syscall.Munmap(b) }

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func errnoError(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
