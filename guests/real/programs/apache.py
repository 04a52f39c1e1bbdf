"""Apache with modules: each graceful restart closes all of them and loads them anew."""
import re
import signal
import subprocess
import time

from launch import descriptors, free_port
from programs import _web
from programs._program import RealProgram
from programs.nginx import _web_until

MODULES = ("mpm_event", "authz_core", "mime", "dir", "deflate", "filter", "autoindex", "status", "rewrite", "headers",
           "proxy", "proxy_http", "socache_shmcb", "ssl", "cache", "cache_disk", "ratelimit", "substitute", "alias")


class Program(RealProgram):
    name, workload = "apache", f"event MPM, {len(MODULES)} modules, graceful restarts, deflate, a proxy to itself"
    processes = ("apache2",)

    def find(self, unpacked):
        self.at = unpacked("apache2", "apache2-bin")
        self.apache = self.at.program("apache2")

    def version(self):
        done = subprocess.run([self.apache, "-v"], env=self.at.environment(), capture_output=True, text=True)
        return done.stdout.split("/")[1].split()[0]

    def start(self, launch):
        self.port, folder = free_port(), launch.folder
        pages = _web.site(folder)
        modules = self.at.root / "usr/lib/apache2/modules"
        lines = [f"LoadModule {name}_module {modules}/mod_{name}.so" for name in MODULES]
        lines += [f"ServerRoot {folder}", f"DefaultRuntimeDir {folder}", f"PidFile {folder}/pid", f"ErrorLog {folder}/errors",
                  "ServerName guest", f"Listen 127.0.0.1:{self.port}", f"DocumentRoot {pages}", "User nobody",
                  "Group nogroup", "TypesConfig /dev/null", "AddType text/html .html", "StartServers 2",
                  "AddOutputFilterByType DEFLATE text/html", f"ProxyPass /proxied http://127.0.0.1:{self.port}/page7.html",
                  "SSLSessionCache shmcb:cache(512000)", f"CacheRoot {folder}/cached", "CacheEnable disk /page3.html",
                  f"<Directory {pages}>", "Require all granted", "</Directory>"]
        (folder / "cached").mkdir()
        (folder / "cached").chmod(0o777)
        (folder / "apache.conf").write_text("\n".join(lines) + "\n")
        self.server = launch.start([self.apache, "-D", "FOREGROUND", "-f", folder / "apache.conf"], self.at.environment())
        _web_until(self.port)

    def round(self, launch):
        answers, started = {}, time.monotonic()
        for _ in range(4):
            for answer, count in _web.load(self.port, 600, ("/proxied",)).items():
                answers[answer] = answers.get(answer, 0) + count
            # Graceful.
            self.server.send_signal(signal.SIGUSR1)
            time.sleep(0.5)
        return {"answers": answers, "_rate": 2400 / (time.monotonic() - started)}

    def stop(self, launch):
        time.sleep(1)
        open_files = descriptors(self.server.pid)
        self.server.send_signal(signal.SIGTERM)
        status = launch.wait(self.server)
        errors = (launch.folder / "errors").read_text(errors="replace")
        bad = sorted(set(re.findall(r"exit signal \w+[^\n]*|\[\w*:(?:alert|emerg|crit)\][^\n]*", errors)))
        return {"exit status": status, "descriptors": open_files, "log": bad}
