/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Who leaves a CPU and why, who comes to one, and who wakes whom, of the threads of one process.
 *
 * A wait is told when it is over, as one record; where it lasts or the reader wants it at once, its
 * beginning, its end and its waking are records of their own. crates/sched/src/ebpf reads them.
 */
#include "bpf.h"
#include "python_samples.h"
#include "registers.h"

enum constants {
	/* Of the process; its threads are in `threads`. */
	PID,
	/* A leaving is told when it happens, and not with the coming back; while there is no limit. */
	AT_ONCE,
};

/* What `prev_state` has of a thread that waits, of one in a wait that no signal ends, of one that ends. */
enum { STATES = 0xff, DEVICE = 0x2, GONE = 0x10 | 0x20 };
/* A waker's stack is copied, and a sample let pass, only when what it belongs to lasted this long. */
enum { LONG_NS = 1000000 };
/* Short absences are added up in units of 2^10 ns. */
enum { SHORT_SHIFT = 10 };

enum kind { OUT = 1, IN = 2, WAKING = 3, PLACE = 4, WAIT = 5 };

/*
 * User registers on entry to the kernel; `number` is the system call, or negative. `state` is what the
 * thread leaves its CPU in; 0 where it does not. `link` is the return address of a function that calls
 * none, on architectures that have a register for it.
 */
struct user {
	s32 number;
	u32 state;
	u64 pc, sp, fp, link, arguments[4];
};

struct leaving {
	u64 at_ns;
	u32 kind, tid;
	/* For how long it was away since it last came, in absences too short to be told; those that
	 * were waits for devices have a sum of their own. */
	u32 short_other;
	u32 short_device;
	struct user user;
};

struct name {
	u64 first, second;
};

/*
 * What is kept of each thread. A whole wait is told from its beginning to `before_name`. With the 56
 * bytes that the kernel keeps before it (struct htab_elem of kernel/bpf/hashtab.c and the key) it
 * fills four cache lines, none shared with another thread, which may run on another CPU. What a waker
 * there meets, from `woken_ns` to `at_work_ns`, is in one.
 */
struct thread {
	struct leaving leaving;
	/* When and by whom (process, then thread) it was made runnable, where that was not told. */
	u64 woken_ns;
	u64 waker;
	/* Since when it is off its CPU; 0 while it is on one. */
	u64 since_ns;
	/* Its leaving was told. */
	u64 is_told;
	/* Since when it is at work: it came to a CPU, and at most was taken off it in between. */
	u64 at_work_ns;
	/* When it last came to a CPU, and who had that before. */
	u64 came_ns;
	u64 before;
	struct name before_name;
	u64 unused[4];
};
#define WAIT_BYTES __builtin_offsetof(struct thread, unused)

struct coming {
	u64 at_ns;
	u32 kind, tid;
	/* Who had the CPU before: process, then thread. */
	u64 before;
	struct name before_name;
};

struct waking {
	u64 at_ns;
	u32 kind, tid;
	u64 waker;
};

/* Of a wake after a long wait, by a thread of the process: where that was. */
struct waking_stack {
	struct waking waking;
	struct user user;
	u8 stack[256];
};

/* Where a thread begins to wait for a device; its leaving is told besides. */
struct place {
	u64 at_ns;
	u32 kind, tid;
	struct user user;
	/* Bytes of the stack that could be read. */
	u64 copied;
	u8 stack[2048];
};

/* Read in pieces: of a stack that ends within one, those before it are there. */
enum { PIECE_BYTES = 256 };
/* Places that are told apart; two that share a number are told less often. */
enum { PLACES_BITS = 10 };
/* A place is told this seldom: its stack is unwound each time that it is another. */
enum { PLACE_APART_NS = 200000000 };

MAP(threads, HASH, u32, struct thread, 1);
/* Nanoseconds; who is off its CPU for less is not told of. The second is for waits for devices. */
MAP(limits, ARRAY, u32, u64, 2);
/* When each place was told last. */
MAP(places, ARRAY, u32, u64, 1 << PLACES_BITS);
/* Records that did not fit the ring. */
MAP(lost, ARRAY, u32, u64, 1);
/* When a sample passed last. */
MAP(passed, ARRAY, u32, u64, 1);
union record {
	struct leaving leaving;
	struct coming coming;
	struct waking waking;
	struct waking_stack waking_stack;
	struct place place;
};
RING(ring, union record);

/* Of the tracepoints' records. */
struct switch_event {
	u64 prev_comm_first, prev_comm_second;
	u32 prev_pid;
	u64 prev_state;
	u32 next_pid;
} VIEW;

struct waking_event {
	u32 pid;
} VIEW;

/*
 * What a program on a tracepoint gives: with 0 the kernel drops the event for everybody who reads it,
 * perf and watches without eBPF too (trace_call_bpf in kernel/trace/bpf_trace.c).
 */
enum { FOR_OTHERS = 1 };
/* What a program on an event of our own gives for those that are dropped, and for others. */
enum { DROPPED = 0, PASSES = 1 };

static always_inline void output(const void *record, u64 bytes)
{
	if (ring_output(&ring, record, bytes, NO_WAKEUP))
		count(&lost);
}

/* Those of the thread that has the CPU. */
static always_inline void read_registers(struct user *user, u32 state)
{
	struct user_registers *registers = registers_of_current();

	user->number = REGISTER(registers, number);
	user->state = state;
	user->pc = REGISTER(registers, pc);
	user->sp = REGISTER(registers, sp);
	user->fp = REGISTER(registers, fp);
	user->link = REGISTER(registers, link);
	user->arguments[0] = REGISTER(registers, first);
	user->arguments[1] = REGISTER(registers, second);
	user->arguments[2] = REGISTER(registers, third);
	user->arguments[3] = REGISTER(registers, fourth);
}

/* The limit for what the thread is in. */
static always_inline u64 limit_of(const struct thread *thread)
{
	u32 is_device = (thread->leaving.user.state & DEVICE) != 0;
	u64 *limit = map_lookup(&limits, &is_device);

	return limit ? *limit : 0;
}

/* By where the thread entered the kernel and how deep its stack was. */
static always_inline u32 number_of_place(const struct user *user)
{
	const u64 spread = 0x9e3779b97f4a7c15;

	return (user->pc + user->sp * spread) * spread >> (64 - PLACES_BITS);
}

/*
 * Of a thread that begins to wait for a device, the stack, now and then at each place of the code:
 * such a wait may be over in a tenth of a millisecond, and a stall is made of many. Whoever reads the
 * ring comes too late to see one.
 */
static always_inline void tell_place(const struct thread *thread)
{
	u32 number = number_of_place(&thread->leaving.user);
	u64 *told_ns = map_lookup(&places, &number);
	u64 now_ns = thread->leaving.at_ns;

	if (!told_ns || now_ns - *told_ns < PLACE_APART_NS)
		return;
	*told_ns = now_ns;
	struct place *place = ring_reserve(&ring, sizeof(*place), 0);
	/* Without room nothing is lost but one of many. */
	if (!place)
		return;
	place->at_ns = now_ns;
	place->kind = PLACE;
	place->tid = thread->leaving.tid;
	place->user = thread->leaving.user;
	place->copied = 0;
#pragma unroll
	for (u32 piece = 0; piece < sizeof(place->stack); piece += PIECE_BYTES) {
		if (read_user(place->stack + piece, PIECE_BYTES, place->user.sp + piece))
			break;
		place->copied = piece + PIECE_BYTES;
	}
	ring_submit(place, NO_WAKEUP);
	if (PYTHON(IS_PYTHON))
		tell_python(thread->leaving.tid);
}

static always_inline struct thread *thread_of(u32 tid)
{
	return map_lookup(&threads, &tid);
}

/* One that was started since the reader looked last. */
static always_inline struct thread *new_thread(u32 tid)
{
	struct thread nothing = {};

	map_update(&threads, &tid, &nothing, 0);
	return thread_of(tid);
}

/* The thread that has the CPU leaves it: kept, and told at once where that is wanted. Gives the time. */
static always_inline u64 leaves(struct switch_event *event)
{
	u32 tid = event->prev_pid;
	struct thread *thread = thread_of(tid);

	if (!thread)
		thread = new_thread(tid);
	if (!thread)
		return 0;
	thread->leaving.tid = tid;
	thread->leaving.kind = OUT;
	read_registers(&thread->leaving.user, event->prev_state);
	thread->woken_ns = 0;
	thread->is_told = 0;
	u64 now_ns = ktime_ns();
	thread->leaving.at_ns = now_ns;
	thread->since_ns = now_ns;
	if (thread->leaving.user.state & GONE) {
		thread->is_told = 1;
		output(&thread->leaving, sizeof(thread->leaving));
		return now_ns;
	}
	if (thread->leaving.user.state & DEVICE)
		tell_place(thread);
	if (CONSTANT(AT_ONCE) && limit_of(thread) == 0) {
		thread->is_told = 1;
		output(&thread->leaving, sizeof(thread->leaving));
	}
	return now_ns;
}

static always_inline void forget_short(struct thread *thread)
{
	thread->leaving.short_other = 0;
	thread->leaving.short_device = 0;
}

static always_inline void tell_coming(struct switch_event *event, struct thread *thread, u32 tid, u64 before)
{
	struct coming coming = {
		.at_ns = thread->came_ns,
		.kind = IN,
		.tid = tid,
		.before = before,
		.before_name = { event->prev_comm_first, event->prev_comm_second },
	};

	forget_short(thread);
	output(&coming, sizeof(coming));
}

static always_inline void tell_wait(struct switch_event *event, struct thread *thread, u64 before)
{
	thread->leaving.kind = WAIT;
	thread->before = before;
	thread->before_name.first = event->prev_comm_first;
	thread->before_name.second = event->prev_comm_second;
	output(thread, WAIT_BYTES);
	forget_short(thread);
}

/* A thread comes to a CPU. Its leaving was told already, or is now, unless that was just before. */
static always_inline void comes(struct switch_event *event, struct thread *thread, u32 tid, u64 before)
{
	u64 since_ns = thread->since_ns;
	u64 away_ns = thread->came_ns - since_ns;

	if (thread->leaving.user.state & STATES)
		thread->at_work_ns = thread->came_ns;
	thread->since_ns = 0;
	if (!since_ns || thread->is_told)
		tell_coming(event, thread, tid, before);
	else if (away_ns >= limit_of(thread))
		tell_wait(event, thread, before);
	else if (thread->leaving.user.state & DEVICE)
		thread->leaving.short_device += away_ns >> SHORT_SHIFT;
	else
		thread->leaving.short_other += away_ns >> SHORT_SHIFT;
}

/* Of who leaves is kept why; of who comes, and was away for longer than the limit, it is told. */
SEC("tracepoint/sched/sched_switch")
int on_switch(struct switch_event *event)
{
	u64 current = current_pid_tgid();
	u64 now_ns = current >> 32 == CONSTANT(PID) ? leaves(event) : 0;
	u32 tid = event->next_pid;

	/* The idle task, every other time on a machine with CPUs to spare. */
	if (!tid)
		return FOR_OTHERS;
	struct thread *thread = thread_of(tid);
	if (thread) {
		/* The clock was read, where the one that leaves is watched too. */
		thread->came_ns = now_ns ? now_ns : ktime_ns();
		comes(event, thread, tid, current);
	}
	return FOR_OTHERS;
}

/* After a long wait, by a thread of the process: with its stack. */
static always_inline void tell_waking_stack(u64 at_ns, u32 tid, u64 waker)
{
	struct waking_stack *record = ring_reserve(&ring, sizeof(*record), 0);

	if (!record) {
		count(&lost);
		return;
	}
	record->waking.at_ns = at_ns;
	record->waking.kind = WAKING;
	record->waking.tid = tid;
	record->waking.waker = waker;
	read_registers(&record->user, 0);
	/* What cannot be read is zeros. */
	read_user(record->stack, sizeof(record->stack), record->user.sp);
	ring_submit(record, NO_WAKEUP);
}

static always_inline void tell_waking(u32 tid, u64 since_ns)
{
	u64 waker = current_pid_tgid();
	u64 now_ns = ktime_ns();

	if (waker >> 32 == CONSTANT(PID) && now_ns - since_ns >= LONG_NS) {
		tell_waking_stack(now_ns, tid, waker);
		return;
	}
	struct waking waking = { .at_ns = now_ns, .kind = WAKING, .tid = tid, .waker = waker };
	output(&waking, sizeof(waking));
}

/* Who makes whom runnable: kept, or told at once after a long wait. */
SEC("tracepoint/sched/sched_waking")
int on_waking(struct waking_event *event)
{
	u32 tid = event->pid;
	struct thread *thread = thread_of(tid);

	if (!thread || !thread->since_ns)
		return FOR_OTHERS;
	u64 since_ns = thread->since_ns;
	if (!thread->is_told) {
		u64 now_ns = ktime_ns();
		if (now_ns - since_ns < LONG_NS) {
			thread->woken_ns = now_ns;
			thread->waker = current_pid_tgid();
			return FOR_OTHERS;
		}
		thread->is_told = 1;
		output(&thread->leaving, sizeof(thread->leaving));
	}
	tell_waking(tid, since_ns);
	return FOR_OTHERS;
}

/* A sample of any process: passes when it is of a watched thread that is at work for long. */
SEC("perf_event")
int on_sample(void *event)
{
	u64 current = current_pid_tgid();

	if (current >> 32 != CONSTANT(PID))
		return DROPPED;
	struct thread *thread = thread_of(current);
	if (!thread || ktime_ns() - thread->at_work_ns < LONG_NS)
		return DROPPED;
	if (PYTHON(IS_PYTHON))
		tell_python(current);
	return PASSES;
}

/* The time between two samples that pass `on_some`; two CPUs at once may both pass. */
enum { SOME_APART_NS = 300000 };

/* As above, of a thread that works or not, and not too many. */
SEC("perf_event")
int on_some(void *event)
{
	if (current_pid_tgid() >> 32 != CONSTANT(PID))
		return DROPPED;
	u64 now_ns = ktime_ns();
	u64 *passed_ns = only(&passed);
	if (!passed_ns || now_ns - *passed_ns < SOME_APART_NS)
		return DROPPED;
	*passed_ns = now_ns;
	return PASSES;
}
