//go:build linux && !(386 || arm || mips || mipsle)

package slab

import "syscall"

// 32-bit machines have mmap2, which counts the offset in pages; ours is 0 either way.
const sysMmap = syscall.SYS_MMAP
