//go:build !linux

package slab

func explain(string, []byte) string { return "" }
