package slabtest

import (
	"strings"
	"testing"

	"github.com/highwater-rs/highwater/slab"
)

// recorder is a test that must fail.
type recorder struct {
	testing.TB
	failed  []string
	cleanup []func()
}

func (r *recorder) Helper() {}
func (r *recorder) Error(args ...any) {
	text, _ := args[0].(string)
	r.failed = append(r.failed, text)
}
func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }

func TestNoLeaks(t *testing.T) {
	p, err := slab.New(slab.Options{Name: "leaky", Debug: slab.Stacks})
	if err != nil {
		t.Fatal(err)
	}
	var first recorder
	NoLeaks(&first, p)
	if len(first.failed) != 0 || len(first.cleanup) != 1 {
		t.Fatal("without leases:", first.failed)
	}
	var leases []*slab.Lease
	for range 12 {
		l, err := p.Get(3, 100)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	first.cleanup[0]()
	var last recorder
	NoLeaks(&last, p)
	for _, r := range []recorder{first, last} {
		if len(r.failed) != 1 {
			t.Fatalf("%d failures", len(r.failed))
		}
		for _, want := range []string{"12 live leases", `"leaky"`, "3 rows of 100 bytes", "TestNoLeaks", "and 2 more"} {
			if !strings.Contains(r.failed[0], want) {
				t.Fatalf("%q is not in %s", want, r.failed[0])
			}
		}
	}
	for _, l := range leases {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	first.failed = nil
	first.cleanup[0]()
	if len(first.failed) != 0 {
		t.Fatal(first.failed)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestHint(t *testing.T) {
	if slab.Debug&slab.Stacks != 0 {
		t.Skip("SKIPPED: SLAB_DEBUG records stacks already")
	}
	p, err := slab.New(slab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Get(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if text := leaks(p); !strings.Contains(text, "SLAB_DEBUG=stacks") {
		t.Fatal(text)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}
