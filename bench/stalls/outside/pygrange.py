# Python: queue.Queue pool, threading.Lock. faults: net, nap
import os, queue, socket, struct, subprocess, sys, threading, time, signal

o = dict(port="21150", fault="none", dir="/tmp", truth="", rate="100", conns="6", burst="0", secs="120", work="0")
for k, v in zip(sys.argv[1::2], sys.argv[2::2]):
    o[k[2:]] = v
P = int(o["port"])
signal.alarm(int(o["secs"]))
here = os.path.dirname(os.path.abspath(__file__))
barn, jobs, tally = threading.Lock(), queue.Queue(), {}


def grange_send_report(ms):
    with socket.create_connection(("127.0.0.1", P + 1)) as s:
        s.sendall(struct.pack("<QQ", 1, ms))
        return s.recv(16)


def grange_backoff(ms):
    time.sleep(ms / 1000)


def hand():
    while True:
        s = jobs.get()
        b = s.recv(16)
        if len(b) == 16:
            with barn:
                tally[b[0]] = tally.get(b[0], 0) + sum(range(800))
            s.sendall(b)
        s.close()


def reporter():
    k = 0
    while True:
        time.sleep(2.6)
        k += 1
        f = o["fault"]
        if f == "net":
            with barn:
                grange_send_report(200)
        elif f == "nap":
            with barn:
                grange_backoff(160)
        elif k % 2:
            grange_send_report(200)
        else:
            grange_backoff(160)


L = socket.create_server(("127.0.0.1", P), backlog=64)
subprocess.Popen([here + "/exload", "peer", str(P + 1)])
time.sleep(0.15)
for i in range(5):
    threading.Thread(target=hand, daemon=True).start()
threading.Thread(target=reporter, daemon=True).start()
subprocess.Popen([here + "/exload", "load", "conn", str(P), o["conns"], o["rate"], o["burst"], o["secs"], o["truth"]])
while True:
    s, _ = L.accept()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    jobs.put(s)
