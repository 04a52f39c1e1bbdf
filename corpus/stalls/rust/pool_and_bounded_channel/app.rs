//! A thread for each client. A request makes a quick call over one of two pooled connections (Mutex, Condvar) and
//! sends a note to a writer by a bounded channel of 16. --fault pool: every 2.44 s a report, which no request asks
//! for, takes both connections and makes one slow query of 260 ms. --fault channel: every 2.8 s the writer does 190
//! ms of fsyncs; the channel fills and senders wait. Healthy: the report has a connection of its own; another thread
//! syncs.
use service::*;
use std::fs::File;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Pool {
    idle: Mutex<Vec<TcpStream>>,
    returned: Condvar,
}

impl Pool {
    #[inline(never)]
    fn take_connections(&self, count: usize) -> Vec<TcpStream> {
        let mut idle = self.idle.lock().unwrap();
        while idle.len() < count {
            idle = self.returned.wait(idle).unwrap();
        }
        let at = idle.len() - count;
        idle.split_off(at)
    }

    fn return_connections(&self, connections: Vec<TcpStream>) {
        self.idle.lock().unwrap().extend(connections);
        self.returned.notify_all();
    }
}

#[inline(never)]
fn query_backend(connection: &mut TcpStream, ms: u64) -> u64 {
    std::hint::black_box(ask_over(connection, ms))
}

#[inline(never)]
fn query_totals(connection: &mut TcpStream) -> u64 {
    query_backend(connection, 260) + query_backend(connection, 0)
}

#[inline(never)]
fn flush_notes(file: &File, sum: u64) -> u64 {
    std::hint::black_box(sync_for_ms(file, 190) + sum)
}

fn report_totals(settings: &Settings, pool: Arc<Pool>) {
    let mut own = settings.dial_peer();
    loop {
        sleep_ms(2440);
        if settings.is("pool") {
            let mut connections = pool.take_connections(2);
            query_totals(&mut connections[0]);
            pool.return_connections(connections);
        } else {
            query_totals(&mut own);
        }
    }
}

fn write_notes(notes: Receiver<u64>, file: File, syncer: Option<SyncSender<u64>>) {
    let (mut due, mut sum) = (Instant::now() + Duration::from_secs(2), 0u64);
    for note in notes {
        sum = sum.wrapping_add(note);
        if Instant::now() > due {
            due = Instant::now() + Duration::from_millis(2800);
            match &syncer {
                Some(syncer) => drop(syncer.try_send(sum)),
                None => {
                    flush_notes(&file, sum);
                }
            }
        }
    }
}

fn main() {
    let settings = read_settings(170, 200, 20);
    let listener = settings.listen();
    settings.start_peer("peer");
    let pool = Arc::new(Pool::default());
    pool.return_connections(vec![settings.dial_peer(), settings.dial_peer()]);
    let (to_writer, notes) = sync_channel(16);
    let (to_syncer, sums) = sync_channel::<u64>(4);
    let (file, other_file) = (settings.create_file("notes"), settings.create_file("sums"));
    let syncer = (!settings.is("channel")).then_some(to_syncer);
    spawn("note-writer", || write_notes(notes, file, syncer));
    if settings.is("none") {
        spawn("note-syncer", move || {
            for sum in sums {
                flush_notes(&other_file, sum);
            }
        });
    }
    if !settings.is("channel") {
        let pool = pool.clone();
        spawn("reporter", || report_totals(settings, pool));
    }
    settings.start_load("keep");
    serve_by_threads(&listener, "connection", move |id| {
        burn_us(settings.work_us);
        let mut connections = pool.take_connections(1);
        query_backend(&mut connections[0], 0);
        pool.return_connections(connections);
        to_writer.send(id).unwrap();
    });
}
