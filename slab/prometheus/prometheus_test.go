package prometheus

import (
	"strings"
	"testing"

	"github.com/highwater-rs/highwater/slab"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestCollector(t *testing.T) {
	p, err := slab.New(slab.Options{Name: "parity"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	l, err := p.Get(1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []*Collector{NewCollector(p), NewCollector()} {
		registry := prometheus.NewPedanticRegistry()
		if err := registry.Register(c); err != nil {
			t.Fatal(err)
		}
		want := `
# HELP slab_gets_total Leases.
# TYPE slab_gets_total counter
slab_gets_total{pool="parity"} 1
# HELP slab_in_use_bytes Bytes of live leases; in a sparse pool those they dirtied.
# TYPE slab_in_use_bytes gauge
slab_in_use_bytes{pool="parity"} 1.048576e+06
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "slab_gets_total", "slab_in_use_bytes"); err != nil {
			t.Fatal(err)
		}
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
		if n, err := testutil.GatherAndCount(registry); err != nil || n != len(metrics) {
			t.Fatal(n, err)
		}
	}
}
