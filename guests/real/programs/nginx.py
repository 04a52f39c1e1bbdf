"""nginx with workers that come and go."""
import re
import signal
import subprocess
import time

from launch import descriptors, free_port
from programs import _web
from programs._program import RealProgram


class Program(RealProgram):
    name, workload = "nginx", "2 workers, gzip, reloads, files and a proxy to itself"
    processes = ("nginx",)

    def find(self, unpacked):
        self.at = unpacked("nginx")
        self.nginx = self.at.program("nginx")

    def version(self):
        done = subprocess.run([self.nginx, "-v"], env=self.at.environment(), capture_output=True, text=True)
        return done.stderr.split("/")[-1].strip()

    def start(self, launch):
        self.port, folder = free_port(), launch.folder
        pages = _web.site(folder)
        temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(
            f"worker_processes 2; daemon off; pid {folder}/pid; error_log {folder}/errors notice; events {{}} http {{"
            f"access_log off; gzip on; gzip_types *; client_body_temp_path {folder}/body; {temporary}"
            f"server {{ listen 127.0.0.1:{self.port}; root {pages}; "
            f"location /proxied {{ proxy_pass http://127.0.0.1:{self.port}/page7.html; }} }} }}")
        self.server = launch.start([self.nginx, "-c", folder / "nginx.conf", "-e", folder / "errors"],
                                   self.at.environment())
        _web_until(self.port)

    def round(self, launch):
        answers, started = {}, time.monotonic()
        for _ in range(4):
            for answer, count in _web.load(self.port, 1000, ("/proxied",)).items():
                answers[answer] = answers.get(answer, 0) + count
            self.server.send_signal(signal.SIGHUP)
        rate = 4000 / (time.monotonic() - started)
        time.sleep(1)
        return {"answers": answers, "_rate": rate}

    def stop(self, launch):
        time.sleep(1)
        open_files = descriptors(self.server.pid)
        self.server.send_signal(signal.SIGQUIT)
        status = launch.wait(self.server)
        errors = (launch.folder / "errors").read_text(errors="replace")
        bad = sorted(set(re.findall(r"exited on signal \d+|exited with code [1-9]\d*|\[(?:alert|emerg|crit)\].*", errors)))
        return {"exit status": status, "descriptors": open_files, "log": bad}


def _web_until(port):
    import socket

    from launch import until

    def answers():
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0
    until(answers, "the server listens")
