//! The treasure server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use treasure::figures::Figures;
use treasure::game::{Game, SPRAY_MAX, Table};
use treasure::log::{Log, Sync};
use treasure::net::committer::Committer;
use treasure::net::{Limits, epoll, http, listen, uring};
use treasure::record;
use treasure::session::{Payload, SESSIONS_MAX, Sessions};
use treasure::snapshot;

#[global_allocator]
static ALLOCATOR: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

/// Descriptors of a thread of the network: its ring, listener, log, and the one to spare.
const DESCRIPTORS_OF_THREAD: u64 = 4;
/// Descriptors for all else but connections: snapshot, folders, tokio's own.
const DESCRIPTORS_KEPT: u64 = 64;
/// Connections of players under any limit of descriptors.
const CONNECTIONS_MIN: u64 = 16;
/// A write would pass the file-size limit; the same number on every Linux but MIPS.
const SIGXFSZ: i32 = 25;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Net {
    /// epoll, by tokio
    Tokio,
    /// io_uring, a ring per thread
    Uring,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Coins {
    /// Eight bytes on the heap each
    Boxed,
    /// No allocation
    Inline,
}

#[derive(Parser, Debug, Clone)]
#[command(
    version,
    about = "A real-time coin hunt: taps over TCP, coins back once they are in the log"
)]
struct Arguments {
    /// Port of the game
    #[arg(long)]
    port: u16,
    /// Port of the page, /metrics, /healthz and WebSocket
    #[arg(long)]
    http: u16,
    /// Address of both
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// Folder of the log and the snapshots
    #[arg(long)]
    data: PathBuf,
    /// How to wait for the network
    #[arg(long, value_enum, default_value_t = Net::Tokio)]
    net: Net,
    /// Threads of the network
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How coins are kept
    #[arg(long, value_enum, default_value_t = Coins::Boxed)]
    coins: Coins,
    /// Coins drawn for a tap, of which the best is given
    #[arg(long, default_value_t = 16)]
    spray: usize,
    /// When the log is forced to the disk: never, always, or at the first write after a duration
    #[arg(long, default_value = "never")]
    sync: Sync,
    /// Time between snapshots
    #[arg(long, default_value = "1m", value_parser = humantime::parse_duration)]
    snapshot: Duration,
    /// Sessions that were not seen for so long end
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration)]
    expire: Duration,
    /// Most sessions
    #[arg(long, default_value_t = 8_000_000)]
    sessions: usize,
    /// A connection without a byte for so long is dropped
    #[arg(long, default_value = "5m", value_parser = humantime::parse_duration)]
    idle: Duration,
    /// A connection that does not read its answers for so long is dropped
    #[arg(long, default_value = "2s", value_parser = humantime::parse_duration)]
    slow: Duration,
    /// Stop answering for so long every --pause-every: to check a load program with
    #[arg(long, value_parser = humantime::parse_duration)]
    pause: Option<Duration>,
    /// From pause to pause
    #[arg(long, default_value = "12s", value_parser = humantime::parse_duration)]
    pause_every: Duration,
    /// Of the coins and tokens, together with the number of this start
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(
        (1..=256).contains(&arguments.threads),
        "--threads must be 1 to 256"
    );
    ensure!(
        (1..=SPRAY_MAX).contains(&arguments.spray),
        "--spray must be 1 to {SPRAY_MAX}"
    );
    ensure!(
        (1..=SESSIONS_MAX).contains(&arguments.sessions),
        "--sessions must be 1 to {SESSIONS_MAX}"
    );
    match arguments.coins {
        Coins::Boxed => start::<Option<Box<u64>>>(&arguments),
        Coins::Inline => start::<u64>(&arguments),
    }
}

/// Brings back what was stored, then serves.
fn start<P: Payload>(arguments: &Arguments) -> Result<()> {
    let folder = &arguments.data;
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let sessions = Sessions::<P>::new(arguments.sessions);
    let recovered = snapshot::recover(folder, &sessions)?;
    ensure!(
        recovered.left_out == 0,
        "{} stored sessions do not fit into --sessions {}: raise it",
        recovered.left_out,
        arguments.sessions
    );
    eprintln!(
        "treasure: on {} {}, {recovered:?}",
        highwater_alloc::NAME,
        highwater_alloc::VERSION
    );
    let figures = Arc::new(Figures::default());
    let table: Arc<dyn Table> = Arc::new(Game::new(sessions, arguments.spray, figures.clone()));
    let log = Arc::new(Log::new(folder, recovered.generation, arguments.sync));
    // A restart must not draw the coins and tokens of the start before it again.
    let seed = arguments.seed.wrapping_add(recovered.generation << 20);
    serve(
        &Arguments {
            seed,
            ..arguments.clone()
        },
        table,
        log,
        figures,
    )
}

fn serve(
    arguments: &Arguments,
    table: Arc<dyn Table>,
    log: Arc<Log>,
    figures: Arc<Figures>,
) -> Result<()> {
    let limits = Limits {
        idle: arguments.idle,
        slow: arguments.slow,
        connections: raise_descriptors(arguments.threads)?,
    };
    let committer = Arc::new(Committer::new(figures));
    let lane = log.lane().context("creating the log")?;
    let writer = {
        let committer = committer.clone();
        spawn("log", move || committer.run(lane))?
    };
    spawn_keepers(arguments, &table, &log, &committer)?;
    let game = SocketAddr::new(arguments.address, arguments.port);
    if arguments.net == Net::Uring {
        for thread in 0..arguments.threads {
            let listener = listen::listen(game).with_context(|| format!("listening on {game}"))?;
            let lane = log.lane().context("creating the log")?;
            let (table, seed) = (table.clone(), arguments.seed + 1 + thread as u64);
            let ring =
                uring::Worker::new(listener, table, lane, limits).context("setting up io_uring")?;
            spawn(&format!("ring-{thread}"), move || {
                fastrand::seed(seed);
                if let Err(error) = ring.run() {
                    eprintln!("treasure: a ring failed ({error}); ending");
                    std::process::exit(1);
                }
            })?;
        }
    }
    let room = epoll::Room {
        table,
        committer: committer.clone(),
        limits,
    };
    let runtime = runtime(arguments)?;
    if arguments.net == Net::Tokio {
        open_door(arguments, game, room.clone(), runtime.handle().clone())?;
    }
    runtime.block_on(serve_async(arguments, game, room))?;
    committer.end();
    writer
        .join()
        .map_err(|_| anyhow::anyhow!("the log's thread panicked"))?;
    Ok(())
}

fn runtime(arguments: &Arguments) -> Result<tokio::runtime::Runtime> {
    let threads = if arguments.net == Net::Tokio {
        arguments.threads
    } else {
        1
    };
    let next = std::sync::atomic::AtomicU64::new(arguments.seed.wrapping_add(1 << 32));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("net")
        .on_thread_start(move || {
            fastrand::seed(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        })
        .enable_all()
        .build()
        .context("starting tokio")
}

/// Lets players in; `inside` plays with them.
fn open_door(
    arguments: &Arguments,
    game: SocketAddr,
    room: epoll::Room,
    inside: tokio::runtime::Handle,
) -> Result<()> {
    let listener = listen::listen(game).with_context(|| format!("listening on {game}"))?;
    let seed = arguments.seed.wrapping_add(1 << 33);
    spawn("door", move || {
        fastrand::seed(seed);
        if let Err(error) = epoll::serve(listener, room, &inside) {
            eprintln!("treasure: nobody can be let in ({error}); ending");
            std::process::exit(1);
        }
    })?;
    Ok(())
}

/// Serves HTTP until SIGTERM or Ctrl-C.
async fn serve_async(arguments: &Arguments, game: SocketAddr, room: epoll::Room) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    // With a handler a file-size limit is a write that fails, as a full disk is; without, it kills.
    let _file_size = signal(SignalKind::from_raw(SIGXFSZ))?;
    let page = SocketAddr::new(arguments.address, arguments.http);
    let listener = listen::listen(page).with_context(|| format!("listening on {page}"))?;
    let page = http::serve(
        tokio::net::TcpListener::from_std(listener)?,
        http::Server {
            table: room.table,
            committer: room.committer,
            limits: room.limits,
        },
    );
    eprintln!("treasure: ready on {game}");
    tokio::select! {
        () = page => Ok(()),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

/// Threads that take snapshots, end idle sessions, and pause when asked to.
fn spawn_keepers(
    arguments: &Arguments,
    table: &Arc<dyn Table>,
    log: &Arc<Log>,
    committer: &Arc<Committer>,
) -> Result<()> {
    let (every, idle) = (arguments.snapshot, arguments.expire);
    let (keeper, log, committer) = (table.clone(), log.clone(), committer.clone());
    spawn("keeper", move || {
        let mut ended = Vec::new();
        loop {
            std::thread::sleep(every);
            ended.extend(keeper.expire(idle));
            store_ends(&*keeper, &committer, &mut ended);
            let figures = keeper.figures();
            match keeper.snapshot(&log) {
                Ok(_) => figures.add(&figures.snapshots, 1),
                Err(error) => {
                    figures.add(&figures.snapshot_errors, 1);
                    eprintln!("treasure: no snapshot, the log goes on: {error:#}");
                }
            }
        }
    })?;
    if let Some(pause) = arguments.pause {
        let (table, every) = (table.clone(), arguments.pause_every);
        spawn("pause", move || {
            let mut due = std::time::Instant::now() + every;
            loop {
                std::thread::sleep(due.saturating_duration_since(std::time::Instant::now()));
                table.pause(pause);
                due += every;
            }
        })?;
    }
    Ok(())
}

/// Sessions that ended make room once the log says so; those that it could not take are tried again.
fn store_ends(table: &dyn Table, committer: &Committer, ended: &mut Vec<u64>) {
    if ended.is_empty() {
        return;
    }
    let mut records = Vec::new();
    for token in ended.iter() {
        record::write(&record::Record::Closed { token: *token }, &mut records);
    }
    if committer.store(&records).is_ok() {
        table.release(ended);
        ended.clear();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .with_context(|| format!("starting the thread {name}"))
}

/// Raises the limit of descriptors as far as allowed; how many connections of players that leaves.
fn raise_descriptors(threads: usize) -> Result<usize> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 20);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(most),
            maximum: limit.maximum,
        },
    )
    .context("raising the limit of descriptors")?;
    let kept =
        DESCRIPTORS_KEPT + threads as u64 * DESCRIPTORS_OF_THREAD + http::REQUESTS_MAX as u64;
    Ok(most.saturating_sub(kept).max(CONNECTIONS_MIN) as usize)
}
