/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Requests on the connections of one process: from the arrival of their first bytes to the first byte of
 * the answer; and those that it makes itself, from the last bytes that it sends to the first of the reply.
 * crates/sched/src/answers reads them.
 *
 * The tracepoints are there since Linux 6.3 (include/trace/events/sock.h). What is read of a connection
 * is when, by whom and how many bytes, and never the bytes.
 */
#include "bpf.h"
#include "registers.h"

enum constants {
	/* Of the process. */
	PID,
};

/*
 * Who opened a connection; UNKNOWN of one that was there before the programs, NEITHER of one that has no
 * requests of its own: datagrams of all.
 */
enum role { UNKNOWN = 0, SERVER = 1, CLIENT = 2, NEITHER = 3 };

/* A connection of any process, by the address of the kernel's struct sock. */
struct connection {
	/* Of the request that is not answered yet; 0: there is none. */
	u64 arrived_ns;
	u64 received_ns;
	/* Of a request that the process made, and that has no reply yet; 0: there is none. */
	u64 asked_ns;
	u32 receiver;
	/* The first argument of the system call that received it: the descriptor, in nearly all. */
	u32 descriptor;
	u32 role;
	/* Of one that the process opened: which descriptor it is has been told. */
	u32 is_told;
};

/*
 * Of a reply `arrived_ns` is when it was asked for, `received_ns` 0 and `answered_ns` when it came; 0: it
 * is asked for on a new connection, whose peer can be found by the descriptor while it is open.
 */
struct answer {
	u64 arrived_ns;
	u64 received_ns;
	u64 answered_ns;
	u64 connection;
	u32 receiver, sender;
	u32 descriptor;
	u32 role;
};

/* The least recently used goes: what it was at is not told. */
MAP(connections, LRU_HASH, u64, struct connection, 16384);
/* Replies that took less are nothing that a request is slow by. */
#define REPLY_LEAST_NS 2000000ULL
/* Nanoseconds; answers that took less are counted in `short_answers`, replies that took less are not told. */
MAP(limits, ARRAY, u32, u64, 1);
/* 0 in a pause, when there is too much to tell: no request begins then, and those that began before end. */
MAP(takes_more, ARRAY, u32, u64, 1);
MAP(short_answers, ARRAY, u32, u64, 1);
/* Answers that did not fit the ring. */
MAP(lost, ARRAY, u32, u64, 1);
RING(ring, struct answer);

/*
 * What the tracepoints hand over (TP_PROTO in include/trace/events/sock.h). Raw, for the record that is made for
 * others costs as much as all the rest.
 */
struct length_arguments {
	u64 sock, bytes;
};

struct ready_arguments {
	u64 sock;
};

struct state_arguments {
	u64 sock, before, after;
};

/* include/net/tcp_states.h */
enum { ESTABLISHED = 1, SYN_SENT = 2, SYN_RECV = 3, CLOSED = 7 };

static always_inline u32 is_paused(void)
{
	u64 *more = only(&takes_more);

	return !more || !*more;
}

static always_inline struct connection *connection_of(u64 sock)
{
	return map_lookup(&connections, &sock);
}

/* The first argument of the system call that the thread is in. */
static always_inline u32 first_argument(void)
{
	struct user_registers *registers = registers_of_current();

	return REGISTER(registers, first);
}

static always_inline void opened(u64 sock, u32 role)
{
	struct connection fresh = { .role = role };

	map_update(&connections, &sock, &fresh, 0);
}

/* What is sent may ask for something. */
static always_inline void asks(u64 sock, struct connection *connection)
{
	if (connection->role == SERVER || connection->role == NEITHER || is_paused())
		return;
	/* Anew with each send: what was sent before may have had no reply. */
	connection->asked_ns = ktime_ns();
	if (connection->role != CLIENT || connection->is_told)
		return;
	struct answer begun = {
		.arrived_ns = connection->asked_ns,
		.connection = sock,
		.descriptor = first_argument(),
		.role = CLIENT,
	};
	connection->is_told = 1;
	ring_output(&ring, &begun, sizeof(begun), NO_WAKEUP);
}

/* Something came on a connection on which something was asked for. */
static always_inline void replied(u64 sock, struct connection *connection, u32 receiver)
{
	struct answer reply = {
		.arrived_ns = connection->asked_ns,
		.answered_ns = ktime_ns(),
		.connection = sock,
		.receiver = receiver,
		.sender = receiver,
		.role = connection->role,
	};
	u64 took_ns = reply.answered_ns - reply.arrived_ns;
	u64 *limit_ns = only(&limits);

	connection->asked_ns = 0;
	if (took_ns < REPLY_LEAST_NS || (limit_ns && took_ns < *limit_ns))
		return;
	reply.descriptor = first_argument();
	/* One that finds no room is no request that goes unseen. */
	ring_output(&ring, &reply, sizeof(reply), NO_WAKEUP);
}

/* It is at no request: what is received first, whatever came before. */
static always_inline void forget_request(struct connection *connection)
{
	connection->received_ns = 0;
	connection->arrived_ns = 0;
}

/* Of a connection that is made the side is known, and of one that is over nothing stays: its address is used anew. */
SEC("raw_tracepoint/inet_sock_set_state")
int on_state(struct state_arguments *of)
{
	u64 sock = of->sock;
	s32 before = of->before, after = of->after;

	if (after == ESTABLISHED && before == SYN_RECV)
		opened(sock, SERVER);
	else if (after == ESTABLISHED && before == SYN_SENT)
		opened(sock, CLIENT);
	else if (after == CLOSED)
		map_delete(&connections, &sock);
	return 0;
}

/* Something came; who will read it has not been asked. */
SEC("raw_tracepoint/sk_data_ready")
int on_ready(struct ready_arguments *of)
{
	if (is_paused())
		return 0;
	struct connection *connection = connection_of(of->sock);
	if (connection && !connection->arrived_ns && connection->role != CLIENT && connection->role != NEITHER)
		connection->arrived_ns = ktime_ns();
	return 0;
}

SEC("raw_tracepoint/sock_recv_length")
int on_receive(struct length_arguments *of)
{
	u64 current = current_pid_tgid();
	u64 sock = of->sock;

	if (current >> 32 != CONSTANT(PID))
		return 0;
	struct connection *connection = connection_of(sock);
	/* Nothing is left to read, or nobody asked: what arrived is no request that will be received. */
	if ((s32)of->bytes <= 0 || is_paused()) {
		if (connection && !connection->received_ns)
			connection->arrived_ns = 0;
		/* The reply came in a pause, or the peer is done. */
		if (connection && (s32)of->bytes >= 0)
			connection->asked_ns = 0;
		return 0;
	}
	if (!connection) {
		opened(sock, UNKNOWN);
		connection = connection_of(sock);
	}
	if (!connection)
		return 0;
	if (connection->asked_ns)
		replied(sock, connection, current);
	if (connection->received_ns || connection->role == CLIENT || connection->role == NEITHER)
		return 0;
	u64 now_ns = ktime_ns();
	if (!connection->arrived_ns)
		connection->arrived_ns = now_ns;
	connection->received_ns = now_ns;
	connection->receiver = current;
	connection->descriptor = first_argument();
	return 0;
}

static always_inline void tell(u64 sock, const struct connection *connection, u64 now_ns, u32 sender)
{
	struct answer answer = {
		.arrived_ns = connection->arrived_ns,
		.received_ns = connection->received_ns,
		.answered_ns = now_ns,
		.connection = sock,
		.receiver = connection->receiver,
		.sender = sender,
		.descriptor = connection->descriptor,
		.role = connection->role,
	};

	if (ring_output(&ring, &answer, sizeof(answer), NO_WAKEUP))
		count(&lost);
}

/* What follows the first bytes of an answer belongs to it. */
SEC("raw_tracepoint/sock_send_length")
int on_send(struct length_arguments *of)
{
	u64 current = current_pid_tgid();
	u64 sock = of->sock;

	if (current >> 32 != CONSTANT(PID) || (s32)of->bytes <= 0)
		return 0;
	struct connection *connection = connection_of(sock);
	if (!connection)
		return 0;
	/* More of an answer, or of its own accord: what arrived meanwhile was no request. */
	if (!connection->received_ns) {
		connection->arrived_ns = 0;
		asks(sock, connection);
		return 0;
	}
	/* Of sockets whose end is not told, the address may be that of another one by now. */
	if (connection->role == UNKNOWN && connection->descriptor != first_argument()) {
		forget_request(connection);
		return 0;
	}
	u64 now_ns = ktime_ns();
	u64 *limit_ns = only(&limits);
	if (limit_ns && now_ns - connection->arrived_ns < *limit_ns)
		count(&short_answers);
	else
		tell(sock, connection, now_ns, current);
	forget_request(connection);
	/* On whose side it is, is found out later. */
	asks(sock, connection);
	return 0;
}
