package slab

import "sync"

// registry knows every open pool, to tell whose an address is. Only errors, the debug modes and
// metrics ask.
var registry struct {
	mu    sync.Mutex
	pools []*Pool
}

func register(p *Pool) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	registry.pools = append(registry.pools, p)
}

func unregister(p *Pool) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	for i, q := range registry.pools {
		if q == p {
			registry.pools = append(registry.pools[:i], registry.pools[i+1:]...)
			return
		}
	}
}

func openPools() []*Pool {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return append([]*Pool(nil), registry.pools...)
}

// whose says why an address that lies outside a lease cannot be released through it.
func (p *Pool) whose(address uintptr, capacity int) error {
	if capacity == 0 {
		return ErrForeign
	}
	for _, q := range openPools() {
		q.mu.Lock()
		e := q.extentAt(address)
		q.mu.Unlock()
		if e != nil {
			return ErrWrongPool
		}
	}
	return ErrForeign
}
