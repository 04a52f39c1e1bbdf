//! The network by tokio: a task per connection, the log by one thread, newcomers at a door of their own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::Limits;
use super::committer::Committer;
use super::exchange::Talk;
use super::listen::Spare;
use crate::figures::Dropped;
use crate::game::Table;

/// Niceness of the door's thread: a ninth of a player's share of a CPU (sched(7)), and no player waits for
/// the end of its slice.
const GIVES_WAY: i32 = 10;

/// What a connection needs.
#[derive(Clone)]
pub struct Room {
    pub table: Arc<dyn Table>,
    pub committer: Arc<Committer>,
    pub limits: Limits,
}

/// Accepts for ever, on a thread of its own. A connection goes `inside` with its first good hello: strangers,
/// however many, take their time from each other and not from those who play.
///
/// # Errors
/// When there is no descriptor for the thread's epoll.
pub fn serve(listener: std::net::TcpListener, room: Room, inside: &Handle) -> io::Result<()> {
    // Of this thread alone. Refused, the door is as fast as the others.
    let _ = rustix::process::setpriority_process(None, GIVES_WAY);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { accept(TcpListener::from_std(listener)?, room, inside).await })
}

async fn accept(listener: TcpListener, room: Room, inside: &Handle) -> io::Result<()> {
    let mut spare = Spare::new();
    loop {
        let figures = room.table.figures();
        match listener.accept().await {
            Ok(_) if figures.open() >= room.limits.connections as u64 => {
                figures.drop_one(Dropped::NoDescriptor);
            }
            Ok((stream, _)) => {
                figures.add(&figures.accepted, 1);
                tokio::spawn(meet(stream, room.clone(), inside.clone()));
            }
            Err(error) => {
                let code = error.raw_os_error();
                if code == Some(rustix::io::Errno::MFILE.raw_os_error())
                    || code == Some(rustix::io::Errno::NFILE.raw_os_error())
                {
                    figures.drop_some(Dropped::NoDescriptor, spare.turn_away(&listener));
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// A connection until its hello, then inside.
async fn meet(mut stream: TcpStream, room: Room, inside: Handle) {
    let mut talk = Talk::default();
    let met = match stream.set_nodelay(true) {
        Ok(()) => converse(&mut stream, &mut talk, &room, Until::Hello).await,
        Err(error) => Err(error),
    };
    // A connection that breaks is the player's affair: it comes back with its token.
    match met.and_then(|()| stream.into_std()) {
        Ok(stream) if talk.is_known() => {
            inside.spawn(async move {
                if let Ok(mut stream) = TcpStream::from_std(stream) {
                    let _ = converse(&mut stream, &mut talk, &room, Until::End).await;
                }
                leave(&room);
            });
        }
        _ => leave(&room),
    }
}

fn leave(room: &Room) {
    let figures = room.table.figures();
    figures.add(&figures.ended, 1);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The session is known and has its answer.
    Hello,
    End,
}

async fn converse(
    stream: &mut TcpStream,
    talk: &mut Talk,
    room: &Room,
    until: Until,
) -> io::Result<()> {
    let (limits, figures) = (room.limits, room.table.figures());
    let mut records = Vec::new();
    while until == Until::End || !talk.is_known() {
        let Ok(read) = timeout(limits.idle, stream.read(&mut talk.input[talk.filled..])).await
        else {
            figures.drop_one(Dropped::Silent);
            return Err(io::ErrorKind::TimedOut.into());
        };
        match read? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => talk.filled += more,
        }
        records.clear();
        if talk.play(&*room.table, &mut records).is_err() {
            figures.drop_one(Dropped::Broken);
            return Err(io::ErrorKind::InvalidData.into());
        }
        let committer = &room.committer;
        if !records.is_empty() && committer.stored(committer.append(&records)).await.is_err() {
            figures.drop_one(Dropped::NotStored);
            return Err(io::ErrorKind::StorageFull.into());
        }
        let Ok(sent) = timeout(limits.slow, stream.write_all(&talk.output[..talk.ready])).await
        else {
            figures.drop_one(Dropped::SlowReader);
            return Err(io::ErrorKind::TimedOut.into());
        };
        sent?;
    }
    Ok(())
}
