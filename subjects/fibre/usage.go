package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime/metrics"
	"strconv"
	"syscall"
	"time"
)

// usage is what the process has used so far; rss is what it has now. Source: /proc/self/statm,
// getrusage, runtime/metrics.
type usage struct {
	at      time.Time
	rss     int64
	cpu     time.Duration // user and system
	faults  int64         // minor
	gcs     int64
	gcCPU   float64 // seconds
	heapNow int64
}

func readUsage() (u usage, err error) {
	if u.rss, err = readRSS(); err != nil {
		return u, err
	}
	var r syscall.Rusage
	if err = syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return u, err
	}
	u.at = time.Now()
	u.cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	u.faults = int64(r.Minflt)
	samples := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	u.gcs = int64(samples[0].Value.Uint64())
	u.gcCPU = samples[1].Value.Float64()
	u.heapNow = int64(samples[2].Value.Uint64())
	return u, nil
}

func readRSS() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	return parseStatm(text, os.Getpagesize())
}

// parseStatm takes the resident pages, the second field of /proc/PID/statm.
func parseStatm(text []byte, page int) (int64, error) {
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm: %q has too few fields", text)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("statm: %w", err)
	}
	return pages * int64(page), nil
}
