"""Redis under load while it saves; its data set must be the same, also after a reload."""
import re
import subprocess
import threading

from launch import descriptors, free_port, until
from programs._program import RealProgram

COMMANDS = 60_000


class Program(RealProgram):
    name, workload = "redis", "own data set and redis-benchmark with 3 I/O threads, BGSAVE again and again, DEBUG RELOAD"
    processes = ("redis-server", "io_thd", "bio_")

    def find(self, unpacked):
        self.at = unpacked("redis-server", "redis-tools")
        self.at.program("redis-benchmark")

    def version(self):
        command = [self.at.program("redis-server"), "--version"]
        return subprocess.run(command, env=self.at.environment(), capture_output=True, text=True).stdout.split()[2][2:]

    def cli(self, launch, *words, data=None):
        command = [self.at.program("redis-cli"), "-p", self.port, *words]
        done = subprocess.run(command, env=self.at.environment(), input=data, capture_output=True, text=True, timeout=120)
        return done.stdout.strip()

    def start(self, launch):
        self.port = str(free_port())
        self.log = open(launch.folder / "log", "wb")
        command = [self.at.program("redis-server"), "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--dir",
                   launch.folder, "--io-threads", "3", "--enable-debug-command", "yes", "--activedefrag", "no"]
        self.server = launch.start(command, self.at.environment(), stdout=self.log, stderr=self.log)
        until(lambda: self.cli(launch, "ping") == "PONG", "redis answers")

    def round(self, launch):
        over = threading.Event()
        saver = threading.Thread(target=self.save_again_and_again, args=(launch, over))
        saver.start()
        try:
            benchmark = self.load(launch)
        finally:
            over.set()
            saver.join()
        self.cli(launch, "-n", "1", "flushdb")
        digest = self.cli(launch, "debug", "digest")
        self.cli(launch, "debug", "reload")
        rates = [float(rate) for rate in re.findall(r"([\d.]+) requests per second", benchmark.out)]
        return {"benchmark": [benchmark.status, len(rates)], "digest": digest, "size": self.cli(launch, "dbsize"),
                "digest after a reload": self.cli(launch, "debug", "digest"), "save": self.saves(launch),
                "_rate": len(rates) / sum(1 / rate for rate in rates)}

    def load(self, launch):
        lines = (command(number) for number in range(COMMANDS))
        self.cli(launch, "--pipe", data="\r\n".join(lines) + "\r\n")
        return launch.tool([self.at.program("redis-benchmark"), "-p", self.port, "--dbnum", "1", "-q", "-t",
                            "set,get,lpush,lrange_100,mset", "-n", "20000", "-r", "20000", "-d", "300"],
                           self.at.environment())

    def save_again_and_again(self, launch, over):
        while not over.wait(0.5):
            self.cli(launch, "bgsave")

    def saves(self, launch):
        until(lambda: "rdb_bgsave_in_progress:0" in self.cli(launch, "info", "persistence"), "BGSAVE ends")
        self.cli(launch, "bgsave")
        until(lambda: "rdb_bgsave_in_progress:0" in self.cli(launch, "info", "persistence"), "BGSAVE ends")
        state = self.cli(launch, "info", "persistence")
        checked = launch.tool([self.at.program("redis-check-rdb"), "dump.rdb"], self.at.environment())
        return [re.search(r"rdb_last_bgsave_status:(\w+)", state)[1], checked.status]

    def stop(self, launch):
        open_files = descriptors(self.server.pid)
        self.cli(launch, "shutdown", "nosave")
        status = launch.wait(self.server)
        self.log.close()
        log = (launch.folder / "log").read_text(errors="replace")
        # Where a save is slow to start, the next round's FLUSHALL ends it by SIGUSR1.
        bad = re.findall(r"crashed by signal|Background saving error|Out Of Memory|terminated by signal (?!10\b).*", log)
        return {"exit status": status, "descriptors": open_files, "log": bad}


def command(number):
    """The commands of a data set: the same keys and values in every round."""
    key, kind = number % 10_000, number % 5
    if number == 0:
        return "FLUSHALL"
    if kind == 0:
        return f"SET s{key} {'x' * (number % 500)}{number}"
    if kind == 1:
        return f"HSET h{key % 500} f{number % 300} {number}"
    if kind == 2:
        return f"ZADD z{key % 100} {number % 777} m{number % 400}"
    if kind == 3:
        return f"RPUSH l{key % 200} {'y' * (number % 90)}"
    return f"DEL s{(number * 7) % 10_000}" if number % 3 else f"SADD set{key % 50} {number}"
