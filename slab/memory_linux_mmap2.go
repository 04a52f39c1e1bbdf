//go:build linux && (386 || arm || mips || mipsle)

package slab

import "syscall"

const sysMmap = syscall.SYS_MMAP2
