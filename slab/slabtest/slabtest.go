// Package slabtest finds leases that a test forgot to close.
package slabtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/highwater-rs/highwater/slab"
)

// listed is how many leaked leases are described.
const listed = 10

// NoLeaks fails the test if the pool has live leases: now, and once more when the test and its
// other cleanups are over. So it can stand first in a test, or last, or be deferred. With
// slab.Stacks the message says where the leases were made.
func NoLeaks(t testing.TB, p *slab.Pool) {
	t.Helper()
	if text := leaks(p); text != "" {
		t.Error(text)
		return
	}
	t.Cleanup(func() {
		t.Helper()
		if text := leaks(p); text != "" {
			t.Error(text)
		}
	})
}

func leaks(p *slab.Pool) string {
	live := p.Live()
	if len(live) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "slabtest: %d live leases in pool %q:", len(live), p.Name())
	for i, l := range live {
		if i == listed {
			fmt.Fprintf(&b, "\n  and %d more", len(live)-listed)
			break
		}
		fmt.Fprintf(&b, "\n  %d rows of %d bytes, %v old", l.Rows, l.RowSize, l.Age)
		if l.Stack != "" {
			fmt.Fprintf(&b, ", allocated at:\n%s", l.Stack)
		}
	}
	if live[0].Stack == "" {
		b.WriteString("\n  (set slab.Debug = slab.Stacks, or SLAB_DEBUG=stacks, to see where)")
	}
	return b.String()
}
