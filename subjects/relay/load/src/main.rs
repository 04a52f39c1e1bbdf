//! Load for the relay subject: hosts that it dials, consumers that it serves, and
//! `highwater.load/1` lines of the time from when a message was due to when a consumer had it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use highwater_load::arrivals::RATE_PER_S;
use highwater_load::clock::now_ns;
use highwater_load::{Arrivals, Output, Recorder, Spacing};
use relay_load::consumers::consume;
use relay_load::hosts::{Hosts, NotSent};
use relay_load::message::Source;
use relay_load::sent::{LOST_AFTER_NS, Sent};
use rustix::process::{Resource, getrlimit, setrlimit};

#[derive(Parser, Clone)]
#[command(
    version,
    about = "Plays the hosts of a relay on one port, and its consumers. Prints one \
    JSON line per interval (highwater.load/1)."
)]
struct Arguments {
    /// Where the relay finds the hosts
    #[arg(long)]
    listen: SocketAddr,
    /// Where the relay serves consumers
    #[arg(long)]
    relay: SocketAddr,
    /// Hosts
    #[arg(long, default_value_t = 16)]
    hosts: usize,
    /// Messages per second, over all hosts
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Consumers; with 0, latency ends when the kernel has taken the message
    #[arg(long, default_value_t = 1)]
    consumers: usize,
    /// Accounts on each host
    #[arg(long, default_value_t = 8)]
    repos_per_host: usize,
    /// How long; without it, until SIGTERM or Ctrl-C
    #[arg(long, value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// One line of output per this time
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// How long to wait for all hosts and consumers after the first connection
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    settle: Duration,
    /// Equal gaps between messages instead of random ones
    #[arg(long)]
    even: bool,
    /// Of the gaps, the hosts and the messages
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How often the sending loop looks for the end while nothing is due.
const POLL_NS: u64 = 20_000_000;
/// How long the end waits for messages under way.
const END_GRACE_NS: u64 = 1_000_000_000;

struct Load<'a> {
    arguments: &'a Arguments,
    recorder: &'a Recorder,
    sent: &'a Sent<'a>,
    consumers: &'a AtomicUsize,
    stop: &'a AtomicBool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(arguments.hosts > 0, "--hosts must be at least 1");
    ensure!(
        RATE_PER_S.contains(&arguments.rate),
        "--rate {} is not between {} and {} messages per second",
        arguments.rate,
        RATE_PER_S.start(),
        RATE_PER_S.end()
    );
    raise_descriptor_limit();
    let stop = highwater_load::until_told()?;
    let hosts = Hosts::listen(arguments.listen, arguments.hosts)
        .with_context(|| format!("cannot listen on {}; is it in use?", arguments.listen))?;

    let recorder = Recorder::new(now_ns());
    let sent = Sent::new(&recorder);
    let consumers = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    let load = Load {
        arguments: &arguments,
        recorder: &recorder,
        sent: &sent,
        consumers: &consumers,
        stop: &stop,
    };
    let totals = std::thread::scope(|scope| -> Result<_> {
        for _ in 0..arguments.consumers {
            scope.spawn(|| consume(arguments.relay, &sent, &consumers, &over));
        }
        let sender = scope.spawn(|| {
            let result = load.run(hosts);
            over.store(true, Ordering::SeqCst);
            result
        });
        let mut out = io::stdout().lock();
        let mut output = Output::new(&recorder, &mut out);
        let printed = output.until(now_ns(), u64::MAX, arguments.interval, &over);
        stop.store(true, Ordering::SeqCst); // when nobody reads the lines any more
        let sent_all = sender.join().expect("the sending thread does not panic");
        printed.context("cannot write the results")?;
        output.write_line().context("cannot write the results")?;
        sent_all.map(|()| output.totals())
    })?;
    eprintln!(
        "{} received, {} errors, {} dropped",
        totals.requests, totals.errors, totals.dropped
    );
    Ok(())
}

impl Load<'_> {
    fn run(&self, mut hosts: Hosts) -> Result<()> {
        if self.wait_for_relay(&mut hosts)? {
            self.send_all(&mut hosts)?;
        }
        let deadline_ns = now_ns() + END_GRACE_NS;
        while !self.sent.is_empty() && now_ns() < deadline_ns {
            self.serve(&mut hosts, now_ns() + POLL_NS)?;
        }
        self.sent.expire(u64::MAX, now_ns());
        Ok(())
    }

    /// Waits for the relay, however long it takes, and then a while for all that is expected.
    /// False when the load was stopped first.
    fn wait_for_relay(&self, hosts: &mut Hosts) -> Result<bool> {
        let mut give_up_ns = None;
        while !self.stop.load(Ordering::Relaxed) {
            self.serve(hosts, now_ns() + POLL_NS)?;
            let (connected, consumers) = (hosts.connected(), self.consumers.load(Ordering::SeqCst));
            if connected == self.arguments.hosts && consumers == self.arguments.consumers {
                return Ok(true);
            }
            if connected > 0 {
                let settle_ns = self.arguments.settle.as_nanos() as u64;
                let give_up_ns = *give_up_ns.get_or_insert(now_ns().saturating_add(settle_ns));
                if now_ns() >= give_up_ns {
                    eprintln!(
                        "starting with {connected} of {} hosts and {consumers} of {} consumers",
                        self.arguments.hosts, self.arguments.consumers
                    );
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn send_all(&self, hosts: &mut Hosts) -> Result<()> {
        let arguments = self.arguments;
        let source = Source::new(arguments.seed, arguments.hosts, arguments.repos_per_host);
        let spacing = Spacing::of_flag(arguments.even);
        let arrivals = Arrivals::new(arguments.rate, spacing, arguments.seed);
        let mut random = fastrand::Rng::with_seed(!arguments.seed);
        let mut seqs = vec![0; arguments.hosts];
        let start_ns = now_ns();
        let duration_ns = arguments
            .duration
            .map_or(u64::MAX, |time| time.as_nanos() as u64);
        for (number, offset_ns) in (0..).zip(arrivals) {
            if offset_ns >= duration_ns || !self.serve_until(hosts, start_ns + offset_ns)? {
                return Ok(());
            }
            let host = random.usize(0..arguments.hosts);
            seqs[host] += 1;
            let message = source.message(number, host, seqs[host]);
            self.send(hosts, host, number, start_ns + offset_ns, message);
        }
        Ok(())
    }

    /// False when the load was stopped first.
    fn serve_until(&self, hosts: &mut Hosts, due_ns: u64) -> Result<bool> {
        loop {
            let now = now_ns();
            self.sent.expire(now.saturating_sub(LOST_AFTER_NS), now);
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if now >= due_ns {
                return Ok(true);
            }
            self.serve(hosts, due_ns.min(now + POLL_NS))?;
        }
    }

    fn serve(&self, hosts: &mut Hosts, until_ns: u64) -> Result<()> {
        hosts.serve(until_ns).context("cannot wait for connections")
    }

    fn send(&self, hosts: &mut Hosts, host: usize, number: u64, due_ns: u64, message: Vec<u8>) {
        let consumers = self.consumers.load(Ordering::SeqCst);
        if consumers > 0 {
            self.sent.expect(number, due_ns, now_ns(), consumers);
        }
        match hosts.send(host, message) {
            Ok(()) if self.arguments.consumers == 0 => self.recorder.answered(due_ns, now_ns()),
            // The relay has dropped all consumers: nobody is there to receive it.
            Ok(()) if consumers == 0 => self.recorder.failed(),
            Ok(()) => {}
            Err(NotSent::NotConnected | NotSent::Full) => {
                self.sent.withdraw(number);
                self.recorder.dropped(1);
            }
        }
    }
}

/// One descriptor per host: the usual soft limit of 1,024 is not enough.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it, connections beyond the limit fail and are seen as hosts not connected.
    let _ = setrlimit(Resource::Nofile, limit);
}
