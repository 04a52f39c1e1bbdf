package slab

import (
	"bytes"
	"context"
	"syscall"
	"testing"
)

// faultyMemory refuses chosen calls, as the kernel does when it has no memory.
type faultyMemory struct {
	memory
	calls  int
	refuse func(call int, name string) bool
}

func (m *faultyMemory) refused(name string) error {
	m.calls++
	if m.refuse != nil && m.refuse(m.calls, name) {
		return syscall.ENOMEM
	}
	return nil
}

func (m *faultyMemory) reserve(n int) ([]byte, error) {
	if err := m.refused("reserve"); err != nil {
		return nil, err
	}
	return m.memory.reserve(n)
}

func (m *faultyMemory) commit(b []byte) error {
	if err := m.refused("commit"); err != nil {
		return err
	}
	return m.memory.commit(b)
}

func (m *faultyMemory) discard(b []byte) error {
	if err := m.refused("discard"); err != nil {
		return err
	}
	return m.memory.discard(b)
}

func (m *faultyMemory) retract(b []byte) error {
	if err := m.refused("retract"); err != nil {
		return err
	}
	return m.memory.retract(b)
}

func (m *faultyMemory) protect(b []byte, on bool) error {
	if err := m.refused("protect"); err != nil {
		return err
	}
	return m.memory.protect(b, on)
}

func (m *faultyMemory) resident(b []byte) (int64, error) {
	if err := m.refused("resident"); err != nil {
		return 0, err
	}
	return m.memory.resident(b)
}

func (m *faultyMemory) advise(b []byte, huge HugePages) error {
	if err := m.refused("advise"); err != nil {
		return err
	}
	return m.memory.advise(b, huge)
}

func (m *faultyMemory) release(b []byte) error {
	if err := m.refused("release"); err != nil {
		return err
	}
	return m.memory.release(b)
}

// script does a bit of everything. Any call may fail with ErrNoMemory; nothing else may happen.
func script(t *testing.T, p *Pool) {
	held := []*Lease{}
	for i, s := range [][2]int{{4, 4096}, {1, 1 << 20}, {100, 320}, {4, 4096}, {1, 3 << 20}, {7, 8192}} {
		l, err := p.Get(s[0], s[1])
		if err != nil {
			wantKind(t, err, ErrNoMemory)
			wantKind(t, err, syscall.ENOMEM)
			continue
		}
		for _, row := range l.Rows() {
			fill(row, byte(i))
		}
		if i%2 == 0 {
			mustClose(t, l)
			continue
		}
		held = append(held, l)
	}
	if l, err := p.ReadFrom(bytes.NewReader(make([]byte, 100_000)), 1<<20); err == nil {
		mustClose(t, l)
	}
	if l, err := p.GetContext(context.Background(), 3, 5000); err == nil {
		held = append(held, l)
	}
	check(t, p)
	for _, l := range held {
		mustClose(t, l)
	}
	check(t, p)
	p.Stats()
	p.Trim()
	check(t, p)
}

// Every single call to the kernel fails once, and then all from there on.
func TestEveryCallRefused(t *testing.T) {
	for _, o := range []Options{{}, {Sparse: true}, {HugePages: Advise}, {Zero: true},
		{Sparse: true, Zero: true}, {Debug: Guard}, {Debug: Guard | Poison}, {Cap: 64 << 20}} {
		counting := &faultyMemory{memory: systemMemory()}
		o.memory = counting
		p := newPool(t, o)
		script(t, p)
		wantKind(t, p.Close(), nil)
		for n := 1; n <= counting.calls; n++ {
			for _, forever := range []bool{false, true} {
				o.memory = &faultyMemory{memory: systemMemory(), refuse: func(call int, _ string) bool {
					return call == n || forever && call > n
				}}
				p := newPool(t, o)
				script(t, p)
				wantKind(t, p.Close(), nil)
			}
		}
	}
}

// Where the system gives few addresses at once, the pool takes few, and more arenas.
func TestFewAddresses(t *testing.T) {
	small := &faultyMemory{memory: systemMemory()}
	limited := &limitedMemory{memory: small, most: 1 << 20}
	p := newPool(t, Options{memory: limited})
	var held []*Lease
	for range 20 {
		held = append(held, get(t, p, 1, 600<<10))
	}
	if len(p.arenas) < 10 {
		t.Fatalf("%d arenas: nothing is tested", len(p.arenas))
	}
	check(t, p)
	for _, l := range held {
		fill(l.Bytes(), 1)
		mustClose(t, l)
	}
	check(t, p)
	p.Trim()
	if len(p.arenas) != 1 || p.Stats().Mapped != 0 {
		t.Fatalf("%d arenas are left, %d bytes mapped", len(p.arenas), p.Stats().Mapped)
	}
	_, err := p.Get(1, 2<<20)
	wantKind(t, err, ErrNoMemory)
}

type limitedMemory struct {
	memory
	most int
}

func (m *limitedMemory) reserve(n int) ([]byte, error) {
	if n > m.most {
		return nil, syscall.ENOMEM
	}
	return m.memory.reserve(n)
}
