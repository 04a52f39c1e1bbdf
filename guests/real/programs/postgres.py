"""PostgreSQL under pgbench; the balances must add up."""
import re
import signal
import subprocess

from launch import NOBODY, Skipped, descriptors, until
from programs._program import RealProgram

SUMS = """select (select sum(abalance) from pgbench_accounts) = (select coalesce(sum(delta), 0) from pgbench_history),
 (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers),
 (select count(*) from pgbench_accounts), (select count(*) % 100 from pgbench_history)"""
# Sorts, hashes, parallel workers, regular expressions, JSON: what pgbench itself does not reach.
QUERY = """select md5(string_agg(t, '' order by t)) from (select a.bid || jsonb_build_object('n', count(*))::text ||
 sum((b.aid::text ~ '7+')::int) as t from pgbench_accounts a join pgbench_accounts b on a.aid = b.aid group by a.bid,
 a.aid % 100) s"""


class Program(RealProgram):
    name, workload = "postgres", "pgbench with 4 clients, queries with parallel workers"
    processes = ("postgres",)

    def find(self, unpacked):
        self.at = unpacked_or_installed(unpacked)
        for tool in ("postgres", "initdb", "pgbench", "psql"):
            self.at.program(tool)
        done = subprocess.run([self.at.program("postgres"), "--version"], env=self.at.environment(), capture_output=True)
        if done.returncode != 0:
            raise Skipped(f"postgres does not start: {done.stderr.decode()}")

    def version(self):
        command = [self.at.program("postgres"), "--version"]
        return subprocess.run(command, env=self.at.environment(), capture_output=True, text=True).stdout.split()[2]

    def tool(self, launch, name, *words):
        done = launch.tool([self.at.program(name), *words], self.at.environment(), NOBODY)
        assert done.status == 0, f"{name}: {done.out}{done.errors}"
        return done.out

    def psql(self, launch, query):
        return self.tool(launch, "psql", *self.to, "-Atc", query, "postgres").strip()

    def start(self, launch):
        folder = launch.folder
        self.to = ["-h", folder, "-U", "bench"]
        done = launch.run([self.at.program("initdb"), "-D", "data", "-A", "trust", "-U", "bench", "--no-sync"],
                          self.at.environment(), NOBODY)
        assert done.status == 0, done.errors
        self.log = open(folder / "log", "wb")
        settings = ["listen_addresses=", "fsync=off", "autovacuum_naptime=1s", "max_parallel_workers_per_gather=2",
                    "min_parallel_table_scan_size=0", "parallel_setup_cost=0"]
        self.server = launch.start([self.at.program("postgres"), "-D", "data", "-k", folder,
                                    *(word for setting in settings for word in ("-c", setting))],
                                   self.at.environment(), NOBODY, stdout=self.log, stderr=self.log)
        answers = [self.at.program("psql"), *self.to, "-Atc", "select 1", "postgres"]
        until(lambda: launch.tool(answers, self.at.environment(), NOBODY).status == 0, "postgres answers")
        self.tool(launch, "pgbench", *self.to, "-i", "-s", "1" if self.is_short else "4", "-q", "postgres")

    def round(self, launch):
        transactions = 100 if self.is_short else 2000
        out = self.tool(launch, "pgbench", *self.to, "-n", "-t", str(transactions), "-c", "4", "-j", "2", "postgres")
        return {"processed": re.findall(r"actually processed: (\S+)", out), "failed": re.findall(r"failed.*: (\d+)", out),
                "sums": self.psql(launch, SUMS), "query": self.psql(launch, QUERY),
                "_rate": float(re.search(r"tps = ([\d.]+)", out)[1])}

    def stop(self, launch):
        open_files = descriptors(self.server.pid)
        self.server.send_signal(signal.SIGINT)
        status = launch.wait(self.server)
        self.log.close()
        log = (launch.folder / "log").read_text(errors="replace")
        # Whoever asks before it is up is turned away.
        log = log.replace("FATAL:  the database system is starting up", "")
        # A fast shutdown ends an autovacuum that happens to be at work.
        log = log.replace("FATAL:  terminating autovacuum process due to administrator command", "")
        bad = [line for line in log.splitlines() if re.search("terminated by signal|PANIC|FATAL|ERROR", line)]
        return {"exit status": status, "descriptors": open_files, "log": bad}


def unpacked_or_installed(unpacked):
    """What is installed is taken without asking for a package."""
    import debian
    installed = debian.Unpacked("/nowhere")
    try:
        for tool in ("postgres", "initdb", "pgbench", "psql"):
            installed.program(tool)
        return installed
    except Skipped:
        return unpacked("postgresql-15", "postgresql-client-15")
