// Package prometheus is a collector for slab pools.
package prometheus

import (
	"github.com/highwater-rs/highwater/slab"
	"github.com/prometheus/client_golang/prometheus"
)

// Collector gives the metrics of pools, one series for each, with the label pool.
type Collector struct{ pools []*slab.Pool }

// NewCollector collects these pools, or without any all that are open at each scrape. Their names
// must differ.
func NewCollector(pools ...*slab.Pool) *Collector { return &Collector{pools} }

type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*slab.Stats) float64
}

func gauge(name, help string, value func(*slab.Stats) float64) metric {
	return metric{describe(name, help), prometheus.GaugeValue, value}
}

func counter(name, help string, value func(*slab.Stats) float64) metric {
	return metric{describe(name, help), prometheus.CounterValue, value}
}

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("slab_"+name, help, []string{"pool"}, nil)
}

var metrics = []metric{
	gauge("in_use_bytes", "Bytes of live leases; in a sparse pool those they dirtied.",
		func(s *slab.Stats) float64 { return float64(s.InUse) }),
	gauge("free_dirty_bytes", "Bytes kept resident for reuse.",
		func(s *slab.Stats) float64 { return float64(s.FreeDirty) }),
	gauge("mapped_bytes", "Bytes of committed addresses.",
		func(s *slab.Stats) float64 { return float64(s.Mapped) }),
	gauge("peak_in_window_bytes", "Highest in-use bytes of the last window.",
		func(s *slab.Stats) float64 { return float64(s.PeakInWindow) }),
	gauge("asked_untouched_bytes", "Bytes of live leases of a sparse pool that were never touched.",
		func(s *slab.Stats) float64 { return float64(s.AskedUntouched) }),
	gauge("leases", "Live leases.",
		func(s *slab.Stats) float64 { return float64(s.Leases) }),
	gauge("waiting", "Gets that wait under the cap.",
		func(s *slab.Stats) float64 { return float64(s.Waiting) }),
	gauge("oldest_lease_seconds", "Age of the oldest live lease.",
		func(s *slab.Stats) float64 { return s.OldestLease.Seconds() }),
	counter("gets_total", "Leases.",
		func(s *slab.Stats) float64 { return float64(s.Gets) }),
	counter("misses_total", "Gets that no warm memory fitted.",
		func(s *slab.Stats) float64 { return float64(s.Misses) }),
	counter("grow_bytes_total", "Bytes that became resident for leases.",
		func(s *slab.Stats) float64 { return float64(s.GrowBytes) }),
	counter("purge_bytes_total", "Bytes given back to the kernel.",
		func(s *slab.Stats) float64 { return float64(s.PurgeBytes) }),
	counter("waits_total", "Gets that had to wait under the cap.",
		func(s *slab.Stats) float64 { return float64(s.Waits) }),
	counter("wait_seconds_total", "Time they waited.",
		func(s *slab.Stats) float64 { return s.WaitTime.Seconds() }),
	counter("misuses_total", "Releases that were refused, and corruptions found.",
		func(s *slab.Stats) float64 { return float64(s.Misuses) }),
}

// Describe is of prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
}

// Collect is of prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	pools := c.pools
	if len(pools) == 0 {
		pools = slab.Pools()
	}
	for _, p := range pools {
		s := p.Stats()
		for _, m := range metrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s), s.Name)
		}
	}
}
