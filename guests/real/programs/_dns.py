"""A name server on the loopback interface, and clients of another one: `_dns.py serve PORT`, `_dns.py ask COUNT`."""
import collections
import concurrent.futures
import json
import socket
import socketserver
import struct
import sys
import threading
import zlib

STUB = ("127.0.0.53", 53)
A, CNAME, TXT, AAAA = 1, 5, 16, 28
KINDS = (A, AAAA, TXT)


def encoded(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def decoded(data, at):
    """A name without its case, and where it ends; compression is followed."""
    parts, end = [], None
    while length := data[at]:
        if length >= 192:
            end = end or at + 2
            at = struct.unpack("!H", data[at:at + 2])[0] & 0x3fff
            continue
        parts.append(data[at + 1:at + 1 + length].decode().lower())
        at += 1 + length
    return ".".join(parts), end or at + 1


def records(name, kind):
    """What is true of a name follows from it: some do not exist, some are aliases, some have long texts."""
    number = zlib.crc32(name.encode())
    if number % 11 == 0:
        return None
    if number % 5 == 0 and not name.startswith("target"):
        alias = f"target{number % 1000}.guest.example"
        return [(name, CNAME, encoded(alias)), *(records(alias, kind) or [])]
    count = 1 + number % 4
    if kind == A:
        return [(name, A, struct.pack("!I", 0x0a000000 + (number + n) % 0xffffff)) for n in range(count)]
    if kind == AAAA:
        return [(name, AAAA, b"\xfd" + bytes(11) + struct.pack("!I", (number + n) % 2 ** 32)) for n in range(count)]
    return [(name, TXT, bytes([200]) + bytes([97 + (number + n) % 26]) * 200) for n in range(number % 40)]


def answer(query, limit):
    """A whole answer, or one that says it was cut off."""
    identity, flags = struct.unpack("!HH", query[:4])
    name, end = decoded(query, 12)
    kind = struct.unpack("!H", query[end:end + 2])[0]
    found = records(name, kind)
    body = b"".join(encoded(owner) + struct.pack("!HHIH", type_, 1, 60, len(data)) + data
                    for owner, type_, data in found or [])
    is_cut = len(body) > limit
    state = 0x8080 | flags & 0x0100 | (0x0200 if is_cut else 0) | (3 if found is None else 0)
    count = 0 if is_cut else len(found or [])
    return struct.pack("!HHHHHH", identity, state, 1, count, 0, 0) + query[12:end + 4] + (b"" if is_cut else body)


class Datagram(socketserver.BaseRequestHandler):
    def handle(self):
        self.request[1].sendto(answer(self.request[0], 450), self.client_address)


class Stream(socketserver.StreamRequestHandler):
    def handle(self):
        while head := self.rfile.read(2):
            whole = answer(self.rfile.read(struct.unpack("!H", head)[0]), 65000)
            self.wfile.write(struct.pack("!H", len(whole)) + whole)


def serve(port):
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    stream = socketserver.ThreadingTCPServer(("127.0.0.1", port), Stream)
    threading.Thread(target=stream.serve_forever, daemon=True).start()
    with socketserver.UDPServer(("127.0.0.1", port), Datagram) as server:
        server.serve_forever()


def asked(number):
    """One question, by datagram; over a stream where the answer was cut off. Three attempts."""
    name, kind = f"host{number % 700}.guest.example", KINDS[number % 3]
    query = struct.pack("!HHHHHH", number & 0xffff, 0x0100, 1, 0, 0, 0) + encoded(name) + struct.pack("!HH", kind, 1)
    for _ in range(3):
        try:
            data = by_datagram(query)
            if data[2] & 2:
                data = by_stream(query)
            return f"{name} {kind}", outcome(data)
        except OSError:
            continue
    return f"{name} {kind}", "no answer"


def by_datagram(query):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(20)
        client.sendto(query, STUB)
        return client.recv(65535)


def by_stream(query):
    with socket.create_connection(STUB, timeout=20) as client:
        client.sendall(struct.pack("!H", len(query)) + query)
        with client.makefile("rb") as file:
            return file.read(struct.unpack("!H", file.read(2))[0])


def outcome(data):
    """The status, the number of records and a sum of their data, in no order."""
    count, (_, at) = struct.unpack("!H", data[6:8])[0], decoded(data, 12)
    at, sums = at + 4, []
    for _ in range(count):
        _, at = decoded(data, at)
        kind, _, _, length = struct.unpack("!HHIH", data[at:at + 10])
        value = decoded(data, at + 10)[0].encode() if kind == CNAME else data[at + 10:at + 10 + length]
        sums.append(zlib.crc32(value))
        at += 10 + length
    return f"{data[3] & 15} {count} {sum(sums) % 2 ** 32:08x}"


def ask(count):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = collections.Counter(pool.map(asked, range(count)))
    print(json.dumps({f"{question} {state}": times for (question, state), times in sorted(found.items())}))


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](int(sys.argv[2]))
