//! The network by tokio: a task per connection, the log by one thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::Limits;
use super::committer::Committer;
use super::exchange::Talk;
use super::listen::Spare;
use crate::figures::Dropped;
use crate::game::Table;

/// Accepts for ever.
pub async fn serve(
    listener: TcpListener,
    table: Arc<dyn Table>,
    committer: Arc<Committer>,
    limits: Limits,
) {
    let mut spare = Spare::new();
    loop {
        let figures = table.figures();
        match listener.accept().await {
            Ok(_) if figures.open() >= limits.connections as u64 => {
                figures.drop_one(Dropped::NoDescriptor);
            }
            Ok((stream, _)) => {
                figures.add(&figures.accepted, 1);
                let (table, committer) = (table.clone(), committer.clone());
                tokio::spawn(async move {
                    // A connection that breaks is the player's affair: it comes back with its token.
                    let _ = talk(stream, &*table, &committer, limits).await;
                    let figures = table.figures();
                    figures.add(&figures.ended, 1);
                });
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

async fn talk(
    mut stream: TcpStream,
    table: &dyn Table,
    committer: &Committer,
    limits: Limits,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let figures = table.figures();
    let mut talk = Talk::default();
    let mut records = Vec::new();
    loop {
        let Ok(read) = timeout(limits.idle, stream.read(&mut talk.input[talk.filled..])).await
        else {
            figures.drop_one(Dropped::Silent);
            return Ok(());
        };
        match read? {
            0 => return Ok(()),
            more => talk.filled += more,
        }
        records.clear();
        if talk.play(table, &mut records).is_err() {
            figures.drop_one(Dropped::Broken);
            return Ok(());
        }
        if !records.is_empty() && committer.stored(committer.append(&records)).await.is_err() {
            figures.drop_one(Dropped::NotStored);
            return Ok(());
        }
        let Ok(sent) = timeout(limits.slow, stream.write_all(&talk.output[..talk.ready])).await
        else {
            figures.drop_one(Dropped::SlowReader);
            return Ok(());
        };
        sent?;
    }
}
