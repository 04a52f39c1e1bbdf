package slab

import (
	"errors"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Go's limit is moved only by steps of at least this part of the total: each move stops the world.
const limitStep = 64

// heapFloor is the part of the total that Go's heap keeps in any case: a limit below the live heap
// would make the collector run without end.
const heapFloor = 16

// TieMemoryLimit keeps Go's soft memory limit (debug.SetMemoryLimit) at total less what the pools
// have resident: Go does not see their memory, and would fill the whole of total by itself. With
// total 0 the limit of the process's cgroup is taken. The limit never falls below a sixteenth of
// total. untie restores the limit from before.
func TieMemoryLimit(total int64, pools ...*Pool) (untie func(), err error) {
	if total == 0 {
		if total, err = cgroupLimit(); err != nil {
			return nil, err
		}
	}
	if total < 0 {
		return nil, &Error{Kind: ErrOptions, Op: "TieMemoryLimit", Row: -1, Bytes: total,
			Detail: "the total is negative"}
	}
	t := &tie{total: total, resident: make(map[*Pool]int64), before: debug.SetMemoryLimit(-1)}
	for _, p := range pools {
		p.mu.Lock()
		p.resize = func() { t.set(p, p.budget.inUse+p.budget.freeDirty) }
		p.resize()
		p.mu.Unlock()
	}
	t.mu.Lock()
	t.move(true)
	t.mu.Unlock()
	return func() { t.untie(pools) }, nil
}

type tie struct {
	total, before int64

	mu       sync.Mutex
	resident map[*Pool]int64
	sum      int64
	limit    int64
}

func (t *tie) set(p *Pool, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum += bytes - t.resident[p]
	t.resident[p] = bytes
	t.move(false)
}

func (t *tie) move(always bool) {
	limit := max(t.total-t.sum, t.total/heapFloor)
	if moved := limit - t.limit; !always && moved < t.total/limitStep && -moved < t.total/limitStep {
		return
	}
	t.limit = limit
	debug.SetMemoryLimit(limit)
}

func (t *tie) untie(pools []*Pool) {
	for _, p := range pools {
		p.mu.Lock()
		p.resize = nil
		p.mu.Unlock()
	}
	debug.SetMemoryLimit(t.before)
}

var errNoLimit = errors.New("slab: this process's cgroup has no memory limit: pass a total")

// cgroupLimit is the lowest memory.max from the process's cgroup (version 2) up to the root.
func cgroupLimit() (int64, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, err
	}
	limit := int64(math.MaxInt64)
	for group := parseCgroup(string(text)); ; group = path.Dir(group) {
		text, err := os.ReadFile(path.Join("/sys/fs/cgroup", group, "memory.max"))
		if err == nil {
			limit = min(limit, parseLimit(string(text)))
		}
		if group == "/" || group == "." {
			break
		}
	}
	if limit == math.MaxInt64 {
		return 0, errNoLimit
	}
	return limit, nil
}

// parseCgroup finds the version 2 group in /proc/self/cgroup, "/" if there is none.
func parseCgroup(text string) string {
	for _, line := range strings.Split(text, "\n") {
		if group, found := strings.CutPrefix(line, "0::"); found {
			return path.Clean("/" + group)
		}
	}
	return "/"
}

// parseLimit reads memory.max: bytes, or "max".
func parseLimit(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}
