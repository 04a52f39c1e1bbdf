/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Walks of Python's frames in a ring of their own, beside the records of what happened to the thread then.
 * crates/sched/src/ebpf/python.rs reads them.
 */
#pragma once
#include "python.h"

struct python_sample {
	u64 at_ns;
	u64 tid;
	struct python_frame frames[PYTHON_FRAMES];
};
RING(python_ring, struct python_sample);

/*
 * The functions of Python that the current thread is in, of which neither perf's sample, which comes next, nor
 * a copy of the stack knows anything.
 */
static always_inline void tell_python(u32 tid)
{
	struct python_sample *sample = ring_reserve(&python_ring, sizeof(*sample), 0);

	/* Without room its sample goes without. */
	if (!sample)
		return;
	sample->at_ns = ktime_ns();
	sample->tid = tid;
	python_walk(sample->frames);
	ring_submit(sample, NO_WAKEUP);
}
