//! One thread's events, chunk after chunk.

use std::fs::File;
use std::sync::Arc;

use trace_abi::Event;
use trace_abi::event::{self, Before};

use crate::chunks::{Found, ThreadChunks, read_payload};
use crate::damage::Damage;

/// Reads one thread's events; one chunk of it is in memory.
pub(crate) struct Events {
    file: Arc<File>,
    is_sealed: bool,
    chunks: std::vec::IntoIter<Found>,
    bytes: Vec<u8>,
    at: usize,
    before: Before,
    /// Events that the present chunk's header counts and that were not read yet.
    left: u64,
    pub damage: Damage,
}

impl Events {
    pub fn new(file: Arc<File>, is_sealed: bool, thread: &ThreadChunks) -> Events {
        Events {
            file,
            is_sealed,
            chunks: thread.chunks.clone().into_iter(),
            bytes: Vec::new(),
            at: 0,
            before: Before::default(),
            left: 0,
            damage: Damage::default(),
        }
    }

    /// The next event and its ticks. They never go back, whatever a damaged chunk says.
    pub fn next(&mut self) -> Option<(u64, Event)> {
        loop {
            if self.at < self.bytes.len() {
                let mut rest = &self.bytes[self.at..];
                match event::read(&mut rest, &mut self.before) {
                    Some(event) => {
                        self.at = self.bytes.len() - rest.len();
                        self.left = self.left.saturating_sub(1);
                        return Some((self.before.ticks, event));
                    }
                    None => self.give_up_chunk(),
                }
            }
            self.load()?;
        }
    }

    fn give_up_chunk(&mut self) {
        self.damage.undecodable += 1;
        self.damage.lost_events += self.left;
        self.at = self.bytes.len();
        self.left = 0;
    }

    fn load(&mut self) -> Option<()> {
        self.damage.lost_events += self.left;
        self.left = 0;
        let chunk = self.chunks.next()?;
        self.at = 0;
        match read_payload(&self.file, &chunk, self.is_sealed) {
            Some(bytes) => {
                self.bytes = bytes;
                self.left = u64::from(chunk.events);
                let ticks = chunk.first_ticks.max(self.before.ticks);
                self.before = Before {
                    ticks,
                    address: chunk.first_address,
                };
            }
            None => {
                self.bytes.clear();
                self.damage.checksums += 1;
                self.damage.lost_events += u64::from(chunk.events);
            }
        }
        Some(())
    }
}
