package main

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/highwater-rs/highwater/slab"
)

// report is the line that -report prints. Bytes, seconds, counts.
type report struct {
	Schema         string       `json:"schema"`
	Arm            string       `json:"arm"`
	Input          string       `json:"input"`
	Sizes          []int        `json:"sizes"`
	InFlight       int          `json:"in_flight"`
	Base           int64        `json:"base_bytes"`
	Floor          int64        `json:"floor_bytes"`
	RSSPeak        int64        `json:"rss_peak_bytes"`
	RSSMedian      int64        `json:"rss_median_bytes"`
	PeakOverFloor  float64      `json:"peak_over_floor"`
	MedianOver     float64      `json:"median_over_floor"`
	IdleRSS        int64        `json:"idle_rss_bytes"`
	IdleSeconds    float64      `json:"idle_return_seconds"` // -1: not within the idle time
	Uploads        int64        `json:"uploads"`
	Seconds        float64      `json:"seconds"`
	MiBPerCPU      float64      `json:"mib_per_cpu_second"`
	MiBPerSecond   float64      `json:"mib_per_second"`
	GCs            int64        `json:"gc_cycles"`
	GCShare        float64      `json:"gc_cpu_share"`
	FaultsPerUp    float64      `json:"faults_per_upload"`
	Pools          []slab.Stats `json:"pools"`
	GrowPurgeInMin float64      `json:"grow_purge_mib_per_minute"`
}

func (m *meter) report() report {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := m.ended
	if m.loaded {
		end, _ = readUsage()
	}
	cpu, wall := (end.cpu - m.begun.cpu).Seconds(), end.at.Sub(m.begun.at).Seconds()
	mib, uploads := float64(m.bytes.Load()-m.bytesBefore)/(1<<20), m.uploads.Load()-m.uploadsBefore
	r := report{Schema: "highwater.fibre/1", Arm: m.o.arm, Input: m.o.input, Sizes: m.o.sizes,
		InFlight: m.o.inFlight, Base: m.base.Load(), Floor: m.floor(), RSSPeak: m.rssPeak,
		RSSMedian: median(m.looks), IdleRSS: m.idleRSS, IdleSeconds: m.returned.Seconds(),
		Uploads: uploads, Seconds: wall, MiBPerCPU: ratio(mib, cpu),
		MiBPerSecond: ratio(mib, wall), GCs: end.gcs - m.begun.gcs,
		GCShare:     ratio(end.gcCPU-m.begun.gcCPU, cpu),
		FaultsPerUp: ratio(float64(end.faults-m.begun.faults), float64(uploads))}
	if m.returned < 0 {
		r.IdleSeconds = -1
	}
	r.PeakOverFloor = ratio(float64(r.RSSPeak), float64(r.Floor))
	r.MedianOver = ratio(float64(r.RSSMedian), float64(r.Floor))
	for _, p := range m.pools {
		r.Pools = append(r.Pools, p.Stats())
	}
	r.GrowPurgeInMin = m.churn()
	return r
}

// churn is what the pools grew and purged per minute since they were warm.
func (m *meter) churn() float64 {
	if m.warmAt.IsZero() {
		return 0
	}
	until, bytes := time.Now(), m.churned()
	if !m.loaded {
		until, bytes = m.ended.at, m.churnEnd
	}
	return ratio(float64(bytes-m.churnWarm)/(1<<20), until.Sub(m.warmAt).Minutes())
}

func (m *meter) churned() (bytes int64) {
	for _, p := range m.pools {
		s := p.Stats()
		bytes += s.GrowBytes + s.PurgeBytes
	}
	return bytes
}

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return math.Round(a/b*10000) / 10000
}

// bounds of the latency histogram, in seconds: doubling from 1 ms to 65 s.
const buckets = 17

type histogram struct {
	counts [buckets + 1]atomic.Int64
	nanos  atomic.Int64
}

func (h *histogram) observe(d time.Duration) {
	at := 0
	for bound := time.Millisecond; at < buckets && d > bound; bound *= 2 {
		at++
	}
	h.counts[at].Add(1)
	h.nanos.Add(int64(d))
}

func (h *histogram) write(b *strings.Builder, name string) {
	fmt.Fprintf(b, "# TYPE %s histogram\n", name)
	var total int64
	bound := 0.001
	for i := range h.counts {
		total += h.counts[i].Load()
		le := fmt.Sprintf("%g", bound)
		if i == buckets {
			le = "+Inf"
		}
		fmt.Fprintf(b, "%s_bucket{le=\"%s\"} %d\n", name, le, total)
		bound *= 2
	}
	fmt.Fprintf(b, "%s_sum %g\n%s_count %d\n", name, time.Duration(h.nanos.Load()).Seconds(), name, total)
}

// page is /metrics, as OpenMetrics.
func (m *meter) page(w http.ResponseWriter, _ *http.Request) {
	r := m.report()
	var b strings.Builder
	m.latency.write(&b, "fibre_upload_seconds")
	gauges := []struct {
		name  string
		value float64
	}{
		{"fibre_base_bytes", float64(r.Base)},
		{"fibre_floor_bytes", float64(r.Floor)},
		{"fibre_rss_peak_bytes", float64(r.RSSPeak)},
		{"fibre_rss_over_floor", r.PeakOverFloor},
		{"fibre_rss_median_over_floor", r.MedianOver},
		{"fibre_idle_over_base", ratio(float64(r.IdleRSS), float64(r.Base))},
		{"fibre_idle_return_seconds", r.IdleSeconds},
		{"fibre_mib_per_cpu_second", r.MiBPerCPU},
		{"fibre_gc_cpu_share", r.GCShare},
		{"fibre_faults_per_upload", r.FaultsPerUp},
		{"fibre_pool_churn_mib_per_minute", r.GrowPurgeInMin},
	}
	for _, g := range gauges {
		fmt.Fprintf(&b, "# TYPE %s gauge\n%s %g\n", g.name, g.name, g.value)
	}
	counters := []struct {
		name  string
		value int64
	}{{"fibre_uploads", m.uploads.Load()}, {"fibre_uploaded_bytes", m.bytes.Load()}, {"fibre_gc_cycles", r.GCs}}
	for _, c := range counters {
		fmt.Fprintf(&b, "# TYPE %s counter\n%s_total %d\n", c.name, c.name, c.value)
	}
	for _, s := range r.Pools {
		writePool(&b, &s)
	}
	b.WriteString("# EOF\n")
	w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
	_, _ = w.Write([]byte(b.String()))
}

func writePool(b *strings.Builder, s *slab.Stats) {
	for _, g := range []struct {
		name  string
		value int64
	}{{"in_use", s.InUse}, {"free_dirty", s.FreeDirty}, {"mapped", s.Mapped},
		{"peak_in_window", s.PeakInWindow}, {"asked_untouched", s.AskedUntouched},
		{"grown", s.GrowBytes}, {"purged", s.PurgeBytes}} {
		fmt.Fprintf(b, "# TYPE slab_%s_%s_bytes gauge\nslab_%s_%s_bytes %d\n", s.Name, g.name, s.Name,
			g.name, g.value)
	}
}
