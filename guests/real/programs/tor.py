"""Tor: a network of its own on the loopback interface, each node with its seccomp filter; pages pulled through circuits."""
import collections
import concurrent.futures
import hashlib
import http.server
import re
import socket
import subprocess
import threading
import time

from launch import NOBODY, descriptors, free_port, until
from programs._program import RealProgram

RELAYS = ("relay0", "relay1", "relay2")
# Each pull is isolated from the others, so it takes a circuit of its own.
PULLS = tuple((number, 1 + number * 7919 % 200_000) for number in range(48))
# Of the network's first consensus and of the client's first circuit.
BOOTSTRAP_SECONDS_MAX = 180

EVERY = """TestingTorNetwork 1
DataDirectory {folder}/{name}
Nickname {name}
Address 127.0.0.1
AssumeReachable 1
ShutdownWaitLength 0
Log notice stdout
GeoIPFile /dev/null
GeoIPv6File /dev/null
Sandbox 1
ControlPort 127.0.0.1:{control}
"""
AUTHORITY = """SocksPort 0
ORPort 127.0.0.1:{port} IPv4Only
DirPort 127.0.0.1:{dir_port}
ContactInfo nobody
AuthoritativeDirectory 1
V3AuthoritativeDirectory 1
ExitPolicy reject *:*
TestingV3AuthInitialVotingInterval 10
TestingV3AuthInitialVoteDelay 2
TestingV3AuthInitialDistDelay 2
V3AuthVotingInterval 10
V3AuthVoteDelay 2
V3AuthDistDelay 2
TestingDirAuthVoteGuard *
TestingDirAuthVoteExit *
TestingMinExitFlagThreshold 0
"""
RELAY = """SocksPort 0
ORPort 127.0.0.1:{port} IPv4Only
ContactInfo nobody
ExitRelay 1
ExitPolicy accept *:{page}
ExitPolicy reject *:*
ExitPolicyRejectPrivate 0
"""
CLIENT = """SocksPort 127.0.0.1:{port}
ClientOnly 1
UseEntryGuards 0
"""


class Program(RealProgram):
    name = "tor"
    workload = f"an authority, {len(RELAYS)} relays and a client, all sandboxed; {len(PULLS)} pages, a circuit each"
    processes = ("tor",)

    def find(self, unpacked):
        self.at = unpacked("tor")
        self.tor, self.gencert = self.at.program("tor"), self.at.program("tor-gencert")

    def version(self):
        done = subprocess.run([self.tor, "--version"], env=self.at.environment(), capture_output=True, text=True)
        return re.search(r"version ([\d.]+\d)", done.stdout)[1]

    def start(self, launch):
        self.page, self.nodes, self.controls, self.rounds = Page(), {}, {}, 0
        self.socks = free_port()
        known = self.found(launch)
        self.node(launch, "authority", self.authority + known)
        for name in RELAYS:
            self.node(launch, name, RELAY.format(port=free_port(), page=self.page.port) + known)
        self.node(launch, "client", CLIENT.format(port=self.socks) + known)
        log = launch.folder / "client.log"
        until(lambda: "Bootstrapped 100%" in log.read_text(), "the client has a circuit", BOOTSTRAP_SECONDS_MAX)

    def found(self, launch):
        """The authority's keys, made without the probe: the line by which the others know it."""
        keys = launch.folder / "authority/keys"
        keys.mkdir(parents=True)
        ports = {"port": free_port(), "dir_port": free_port()}
        self.authority = AUTHORITY.format(**ports)
        subprocess.run([self.gencert, "--create-identity-key", "-m", "12", "--passphrase-fd", "0", "-a",
                        f"127.0.0.1:{ports['dir_port']}"], cwd=keys, input=b"loopback only\n", check=True,
                       env=self.at.environment(), capture_output=True)
        identity = re.search("^fingerprint (.*)", (keys / "authority_certificate").read_text(), re.M)[1]
        none = f"DirAuthority authority orport=1 v3ident={'0' * 40} 127.0.0.1:1 {'0' * 40}\n"
        command = self.command(launch, "authority", self.authority + none)
        own(launch.folder / "authority")
        printed = launch.tool([*command, "--list-fingerprint", "--quiet"], self.at.environment(), NOBODY)
        fingerprint = printed.out.split(" ", 1)[1].replace(" ", "").strip()
        return (f"DirAuthority authority orport={ports['port']} no-v2 v3ident={identity} 127.0.0.1:{ports['dir_port']} "
                f"{fingerprint}\n")

    def command(self, launch, name, lines):
        file = launch.folder / f"{name}.torrc"
        self.controls[name] = free_port()
        file.write_text(EVERY.format(folder=launch.folder, name=name, control=self.controls[name]) + lines)
        file.chmod(0o644)
        return [self.tor, "--defaults-torrc", "/dev/null", "-f", file]

    def node(self, launch, name, lines):
        folder = launch.folder / name
        folder.mkdir(exist_ok=True)
        own(folder)
        with open(launch.folder / f"{name}.log", "wb") as log:
            self.nodes[name] = launch.start(self.command(launch, name, lines), self.at.environment(), NOBODY, stdout=log,
                                            stderr=log)

    def round(self, launch):
        # Each node is watched in turn.
        nodes = list(self.nodes.values())
        launch.target = nodes[self.rounds % len(nodes)].pid
        self.rounds += 1
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = collections.Counter(pool.map(lambda pull: self.pull(self.rounds, *pull), PULLS))
        return {"pages": {f"{size} {answer}": count for (size, answer), count in sorted(answers.items())},
                "_rate": len(PULLS) / (time.monotonic() - started)}

    def pull(self, round_number, number, size):
        """Through the client's SOCKS port; a circuit that fails is tried again, as browsers do."""
        for attempt in range(3):
            name = f"{round_number}-{number}-{attempt}".encode()
            try:
                with socket.create_connection(("127.0.0.1", self.socks), timeout=60) as stream:
                    return size, pulled(stream, name, self.page.port, size)
            except OSError:
                continue
        return size, "failed"

    def stop(self, launch):
        sandboxed = {name: confined(node.pid) for name, node in self.nodes.items()}
        client = descriptors(self.nodes["client"].pid)
        statuses = {name: ended(launch, node, self.controls[name]) for name, node in reversed(self.nodes.items())}
        self.page.close()
        logs = {name: complaints((launch.folder / f"{name}.log").read_text(errors="replace")) for name in self.nodes}
        # Tor may wait for itself at its end: 1 of 15 without highwater.
        ends = sorted({status for status in statuses.values() if status != "timeout"})
        return {"exit status": ends, "confined": sandboxed, "log": logs,
                "kinds of descriptors": sorted(set(client))}


def ended(launch, node, port):
    """By the control port: with its sandbox tor 0.4.9.11 has random signals blocked, also without highwater (`SigBlk` in
    /proc/PID/status), so that SIGTERM may stay pending."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as control:
        control.sendall(b"AUTHENTICATE\r\nSIGNAL HALT\r\n")
        return launch.wait(node, seconds=20)


def own(folder):
    subprocess.run(["chown", "-R", NOBODY, folder], check=True)
    folder.chmod(0o700)


def confined(pid):
    with open(f"/proc/{pid}/status") as status:
        return [line.split()[1] for line in status if line.startswith(("Seccomp:", "NoNewPrivs:"))]


def complaints(log):
    """Errors, bugs, and what the sandbox refused, without the times."""
    lines = re.findall(r"(\[err\] .*|.*\bBug:.*|.*[Ss]andbox.*|.*Operation not permitted.*)", log)
    return sorted({re.sub(r"^.*?\[", "[", line) for line in lines})


def pulled(stream, name, port, size):
    """SOCKS 5 with a user name, which isolates the stream, then HTTP/1.0."""
    def read(count):
        data = b""
        while len(data) < count:
            data += (more := stream.recv(count - len(data)))
            if not more:
                raise ConnectionError("closed")
        return data
    stream.sendall(b"\x05\x01\x02")
    read(2)
    stream.sendall(b"\x01" + bytes([len(name)]) + name + b"\x01p")
    read(2)
    stream.sendall(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + port.to_bytes(2, "big"))
    if read(10)[1] != 0:
        raise ConnectionError("refused")
    stream.sendall(f"GET /{size} HTTP/1.0\r\n\r\n".encode())
    answer = b""
    while more := stream.recv(65536):
        answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    if len(body) != size:
        raise ConnectionError("cut short")
    return f"{head.split()[1].decode()} {hashlib.sha256(body).hexdigest()[:12]}"


class Page:
    """Answers /SIZE with as many bytes."""

    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = bytes(n & 255 for n in range(int(self.path[1:])))
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
