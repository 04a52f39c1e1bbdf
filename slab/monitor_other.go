//go:build !linux

package slab

// Guard needs memory that can be protected; see memory_other.go.

func startMonitor() {}

func (p *Pool) logFreed(*extent) {}

func (p *Pool) forgetFreed(*extent) {}
