//! A program with its debug information beside it, by build id, from a server and within, against the same unstripped.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use object::{Object, ObjectSymbol};

use super::places::hexadecimal;
use super::*;

const SOURCE: &str = "
static int kept; __attribute__((noinline)) static int hidden(int a) { return a * 3 + kept; }
__attribute__((noinline)) int shown(int a) { return hidden(a) + 1; }
int main(int c, char **v) { kept = c; return shown(c); }
";

/// Of one program.
struct Built {
    folder: tempfile::TempDir,
    build_id: String,
}

impl Built {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tool(&self, program: &str, words: &[&str]) -> Option<()> {
        let done = Command::new(program)
            .args(words)
            .current_dir(self.folder.path())
            .output()
            .ok()?;
        done.status.success().then_some(())
    }

    /// `whole`, `server.debug` with the debug information alone, `server` without it and without a link.
    fn new(options: &[&str]) -> Option<Built> {
        let mut built = Built {
            folder: tempfile::tempdir().ok()?,
            build_id: String::new(),
        };
        std::fs::write(built.path("server.c"), SOURCE).ok()?;
        let compile = [
            "-g",
            "-O1",
            "-Wl,--build-id=sha1",
            "-o",
            "whole",
            "server.c",
        ];
        built.tool("gcc", &[&compile[..], options].concat())?;
        built.tool("objcopy", &["--only-keep-debug", "whole", "server.debug"])?;
        built.tool("objcopy", &["--strip-all", "whole", "server"])?;
        let (_, facts) = elf::open(&built.path("whole"))?;
        built.build_id = facts
            .build_id
            .as_deref()
            .map(hexadecimal)
            .unwrap_or_default();
        Some(built)
    }

    /// A folder like /usr/lib/debug that holds a file under the build id.
    fn by_build_id(&self, file: &str) -> PathBuf {
        let (start, rest) = self.build_id.split_at(2);
        let folder = self.path("debug").join(".build-id").join(start);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(self.path(file), folder.join(format!("{rest}.debug"))).unwrap();
        self.path("debug")
    }
}

/// Where `hidden` is, in the file and by its symbols.
fn hidden(path: &Path) -> (u64, u64) {
    let bytes = std::fs::read(path).unwrap();
    let whole = object::File::parse(&*bytes).unwrap();
    let symbol = whole
        .symbols()
        .find(|symbol| symbol.name() == Ok("hidden"))
        .unwrap();
    let facts = elf::open(path).unwrap().1;
    let segment = facts
        .segments
        .iter()
        .find(|(_, bytes, at)| (*at..at + bytes).contains(&symbol.address()));
    let (offset, _, address) = segment.unwrap();
    (symbol.address() - address + offset, symbol.address())
}

/// The name at an offset of the mapped file, by the file that was found.
fn name_at(found: &Separate, offset: u64) -> Option<String> {
    let address = found.address(offset)?;
    let bytes = std::fs::read(found.path()).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let symbol = elf
        .symbols()
        .find(|symbol| symbol.address() == address && symbol.size() > 0)?;
    Some(symbol.name().unwrap().to_owned())
}

fn local(folders: &[PathBuf]) -> DebugFiles {
    DebugFiles::new(folders.to_vec(), None)
}

fn assert_named(files: &mut DebugFiles, built: &Built, origin: Origin) {
    let (offset, address) = hidden(&built.path("whole"));
    let found = files
        .find(&built.path("server"), Reach::Servers)
        .expect("a file");
    assert_eq!(found.origin, origin);
    assert_eq!(found.address(offset), Some(address));
    assert_eq!(
        name_at(&found, offset).as_deref(),
        Some("hidden"),
        "{origin:?}"
    );
}

#[test]
fn a_program_that_is_whole_needs_none_and_one_without_has_none() {
    let Some(built) = Built::new(&[]) else {
        return testkit::skipped("no gcc or objcopy");
    };
    let mut files = local(&[built.path("debug")]);
    assert!(files.find(&built.path("whole"), Reach::Servers).is_none());
    assert!(files.find(&built.path("server"), Reach::Servers).is_none());
    assert!(
        files
            .find(&built.path("server.c"), Reach::Servers)
            .is_none()
    );
    assert!(files.find(Path::new("/nowhere"), Reach::Servers).is_none());
}

#[test]
fn by_build_id_and_never_of_another_build() {
    let (Some(built), Some(other)) = (Built::new(&[]), Built::new(&["-DOTHER", "-O2"])) else {
        return testkit::skipped("no gcc or objcopy");
    };
    assert_ne!(built.build_id, other.build_id);
    let folder = built.by_build_id("server.debug");
    assert_named(
        &mut local(std::slice::from_ref(&folder)),
        &built,
        Origin::DebugFile,
    );
    std::fs::copy(other.path("server.debug"), built.path("server.debug")).unwrap();
    let folder = built.by_build_id("server.debug");
    let mut files = local(&[folder]);
    assert!(files.find(&built.path("server"), Reach::Servers).is_none());
    assert_eq!(files.refused, 1);
}

#[test]
fn by_its_link_beside_it_and_in_the_hidden_folder() {
    let Some(built) = Built::new(&[]) else {
        return testkit::skipped("no gcc or objcopy");
    };
    built
        .tool("objcopy", &["--add-gnu-debuglink=server.debug", "server"])
        .unwrap();
    assert_named(&mut local(&[]), &built, Origin::DebugFile);
    std::fs::create_dir(built.path(".debug")).unwrap();
    std::fs::rename(
        built.path("server.debug"),
        built.path(".debug/server.debug"),
    )
    .unwrap();
    assert_named(&mut local(&[]), &built, Origin::DebugFile);
    // Not through a symbolic link, which the owner of the folder may point anywhere.
    std::fs::rename(built.path(".debug/server.debug"), built.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(built.path("elsewhere"), built.path("server.debug")).unwrap();
    assert!(
        local(&[])
            .find(&built.path("server"), Reach::Local)
            .is_none()
    );
}

#[test]
fn without_a_build_id_by_the_links_check_sum() {
    let Some(built) = Built::new(&["-Wl,--build-id=none"]) else {
        return testkit::skipped("no gcc or objcopy");
    };
    assert_eq!(built.build_id, "");
    built
        .tool("objcopy", &["--add-gnu-debuglink=server.debug", "server"])
        .unwrap();
    assert_named(&mut local(&[]), &built, Origin::DebugFile);
    let mut bytes = std::fs::read(built.path("server.debug")).unwrap();
    bytes.push(0);
    std::fs::write(built.path("server.debug"), bytes).unwrap();
    let mut files = local(&[]);
    assert!(files.find(&built.path("server"), Reach::Servers).is_none());
    assert_eq!(files.refused, 1);
}

#[test]
fn mini_debug_info_and_sections_that_are_packed() {
    let Some(built) = Built::new(&[]) else {
        return testkit::skipped("no gcc or objcopy");
    };
    let has_zstd = built
        .tool(
            "objcopy",
            &["--compress-debug-sections=zstd", "whole", "packed"],
        )
        .is_some();
    if built.tool("xz", &["-k", "server.debug"]).is_none() {
        return testkit::skipped("no xz");
    }
    built
        .tool(
            "objcopy",
            &["--add-section", ".gnu_debugdata=server.debug.xz", "server"],
        )
        .unwrap();
    assert_named(&mut local(&[]), &built, Origin::MiniDebugInfo);
    if !has_zstd {
        return testkit::skipped("an objcopy without zstd");
    }
    std::fs::copy(built.path("packed"), built.path("server")).unwrap();
    assert_named(&mut local(&[]), &built, Origin::Itself);
    let found = local(&[])
        .find(&built.path("server"), Reach::Local)
        .unwrap();
    let (_, whole) = elf::open(&built.path("whole")).unwrap();
    let own = elf::facts(found.file()).unwrap();
    assert_eq!(
        (own.zstd_sections, own.has_debug_info, own.build_id),
        (0, true, whole.build_id)
    );
}

/// A server that has one file; how often it was asked.
fn server(file: Option<Vec<u8>>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            count.fetch_add(1, Ordering::SeqCst);
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .next();
            let is_right = request.is_some_and(|line| {
                line.starts_with("GET /buildid/") && line.contains("/debuginfo ")
            });
            let _ = match &file {
                Some(bytes) if is_right => write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    bytes.len()
                )
                .and_then(|()| stream.write_all(bytes)),
                _ => write!(
                    stream,
                    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                ),
            };
        }
    });
    (url, asked)
}

fn asking(built: &Built, url: &str) -> DebugFiles {
    let client = Debuginfod::new(
        vec![url.to_owned()],
        built.path("cache"),
        Duration::from_secs(30),
    );
    DebugFiles::new(Vec::new(), Some(client))
}

#[test]
fn from_a_server_once_and_then_from_the_cache() {
    let Some(built) = Built::new(&[]) else {
        return testkit::skipped("no gcc or objcopy");
    };
    let (url, asked) = server(Some(std::fs::read(built.path("server.debug")).unwrap()));
    let mut files = asking(&built, &url);
    assert!(files.find(&built.path("server"), Reach::Local).is_none());
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    assert_named(&mut files, &built, Origin::Debuginfod);
    assert_named(&mut asking(&built, &url), &built, Origin::Debuginfod);
    assert_eq!(
        asked.load(Ordering::SeqCst),
        1,
        "the second is from the cache"
    );
    assert!(
        built
            .path("cache")
            .join(&built.build_id)
            .join("debuginfo")
            .is_file()
    );
}

#[test]
fn what_no_server_has_is_not_asked_for_again() {
    let (Some(built), Some(other)) = (Built::new(&[]), Built::new(&["-O2"])) else {
        return testkit::skipped("no gcc or objcopy");
    };
    // One that has nothing, one that gives another program's.
    for file in [
        None,
        Some(std::fs::read(other.path("server.debug")).unwrap()),
    ] {
        let _ = std::fs::remove_dir_all(built.path("cache"));
        let (url, asked) = server(file);
        for _ in 0..3 {
            assert!(
                asking(&built, &url)
                    .find(&built.path("server"), Reach::Servers)
                    .is_none()
            );
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
    // Nobody listens: it may be there later.
    let _ = std::fs::remove_dir_all(built.path("cache"));
    let port = testkit::free_port();
    assert!(
        asking(&built, &format!("http://127.0.0.1:{port}"))
            .find(&built.path("server"), Reach::Servers)
            .is_none()
    );
    assert!(
        !built
            .path("cache")
            .join(&built.build_id)
            .join("debuginfo")
            .exists()
    );
}

#[test]
fn a_cache_that_others_may_write_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let Some(built) = Built::new(&[]) else {
        return testkit::skipped("no gcc or objcopy");
    };
    let (url, asked) = server(Some(std::fs::read(built.path("server.debug")).unwrap()));
    std::fs::create_dir(built.path("cache")).unwrap();
    std::fs::set_permissions(built.path("cache"), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(
        asking(&built, &url)
            .find(&built.path("server"), Reach::Servers)
            .is_none()
    );
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}
