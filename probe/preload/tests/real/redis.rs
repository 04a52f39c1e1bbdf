//! redis-server under its own benchmark, while it saves.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::subject::{read_tables, totals};
use crate::{Server, preload, three, unpacked, wait_for_port};
use testkit::free_port;

/// A redis-server of an unpacked package, and its tools.
struct Redis {
    server: Server,
    bin: PathBuf,
    libraries: PathBuf,
    port: String,
    _data: tempfile::TempDir,
}

impl Redis {
    fn start(root: &Path, file: &Option<PathBuf>) -> Redis {
        let (bin, libraries) = (root.join("usr/bin"), root.join("usr/lib/x86_64-linux-gnu"));
        let (port, data) = (free_port().to_string(), tempfile::tempdir().unwrap());
        let mut command = Command::new(bin.join("redis-server"));
        command.args([
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--io-threads",
            "3",
        ]);
        command.arg("--dir").arg(data.path()).stdout(Stdio::null());
        command
            .env("LD_LIBRARY_PATH", &libraries)
            .env("LD_PRELOAD", preload(file));
        let server = Server(command.spawn().unwrap());
        wait_for_port(&port);
        Redis {
            server,
            bin,
            libraries,
            port,
            _data: data,
        }
    }

    fn tool(&self, program: &str, arguments: &str) -> String {
        let mut command = Command::new(self.bin.join(program));
        command
            .args(["-p", &self.port])
            .args(arguments.split_whitespace());
        let out = command
            .env("LD_LIBRARY_PATH", &self.libraries)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.success() || arguments.starts_with("shutdown"),
            "{program}: {errors}"
        );
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn saves(&self) -> bool {
        (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(200));
            let state = self.tool("redis-cli", "info persistence");
            let ended = state.contains("rdb_bgsave_in_progress:0");
            ended && state.contains("rdb_last_bgsave_status:ok")
        })
    }
}

#[test]
#[ignore = "a minute, and fetches redis"]
fn redis_under_load_with_bgsave() {
    let packages = [
        "redis-server",
        "redis-tools",
        "liblzf1",
        "liblua5.1-0",
        "lua-bitop",
        "lua-cjson",
        "libjemalloc2",
    ];
    let Some(folder) = unpacked(&packages) else {
        return;
    };
    for (name, file) in three() {
        let mut redis = Redis::start(&folder.path().join("root"), &file);
        let load = "-q -t set,get,lpush,lrange_100,mset -n 30000 -r 20000 -d 300";
        redis.tool("redis-benchmark", load);
        redis.tool("redis-cli", "bgsave");
        redis.tool("redis-benchmark", "-q -t set -n 30000 -r 20000 -d 300");
        assert!(redis.saves(), "{name}: BGSAVE did not end well");
        let copy =
            read_tables(redis.server.0.id()).unwrap_or_else(|anchor| panic!("{name}: {anchor:?}"));
        let snapshot = abi::read(&copy).unwrap();
        assert!(totals(&snapshot).live_blocks > 20_000, "{name}");
        assert!(snapshot.header.counters.samples_taken > 1_000, "{name}");
        redis.tool("redis-cli", "shutdown nosave");
        assert!(redis.server.0.wait().unwrap().success(), "{name}");
    }
}
