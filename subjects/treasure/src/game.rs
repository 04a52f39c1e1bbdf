//! The rules: what a hello and a tap do. No network, no file.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::figures::Figures;
use crate::protocol::{Answer, Refused};
use crate::record::{self, Record};
use crate::session::{Payload, RECENT, Sessions};

/// Most coins drawn for a tap.
pub const SPRAY_MAX: usize = 64;

/// The game without its kind of payload, for the network.
///
/// What a request changed, or tells of, is appended to `records`: bytes to be stored before the answer leaves.
pub trait Table: Send + std::marker::Sync {
    fn hello(&self, token: u64, records: &mut Vec<u8>) -> Answer;
    fn tap(&self, token: u64, number: u32, x: u16, y: u16, records: &mut Vec<u8>) -> Answer;
    /// Takes a snapshot now.
    fn snapshot(&self, log: &crate::log::Log) -> anyhow::Result<u64>;
    /// Ends sessions not seen for `idle`; their tokens. There is room for others once they are released.
    fn expire(&self, idle: Duration) -> Vec<u64>;
    /// The ends of these are stored.
    fn release(&self, ended: &[u64]);
    /// Nobody is answered for so long: a pause of known length, to check a load program with.
    fn pause(&self, duration: Duration);
    fn sessions(&self) -> usize;
    fn figures(&self) -> &Figures;
}

pub struct Game<P> {
    sessions: Sessions<P>,
    /// Coins drawn around the player; the best is given.
    spray: usize,
    figures: Arc<Figures>,
}

impl<P: Payload> Game<P> {
    pub fn new(sessions: Sessions<P>, spray: usize, figures: Arc<Figures>) -> Game<P> {
        let spray = spray.clamp(1, SPRAY_MAX);
        Game {
            sessions,
            spray,
            figures,
        }
    }

    /// The best of the coins around: each a payload of its own while they are compared, all but one dropped.
    fn draw(&self) -> P {
        let mut coins: [P; SPRAY_MAX] = std::array::from_fn(|_| P::default());
        let around = &mut coins[..self.spray];
        for coin in around.iter_mut() {
            *coin = P::new(fastrand::u64(1..));
        }
        self.figures.add(&self.figures.drawn, self.spray as u64);
        let best = around.iter_mut().max_by_key(|coin| coin.coin());
        best.map(std::mem::take).unwrap_or_default()
    }

    fn refuse(&self, why: Refused, number: u32) -> Answer {
        self.figures.add(&self.figures.refused, 1);
        Answer::Refusal { why, number }
    }

    /// A welcome tells how many coins there are: those that may not be in the log yet go there first, which are at
    /// most the last ones. (A batch of theirs may be under way, or have failed.)
    fn welcome(&self, token: u64, at_s: u32, records: &mut Vec<u8>) -> Option<Answer> {
        self.sessions.with(token, |session| {
            session.seen_s = at_s;
            let taps = session.taps;
            for number in taps.saturating_sub(RECENT as u32 - 1)..=taps {
                if let Some(coin) = session.recent(number).filter(|coin| *coin != 0) {
                    let (x, y) = (session.x, session.y);
                    let record = Record::Coin {
                        token,
                        number,
                        coin,
                        x,
                        y,
                        at_s,
                    };
                    record::write(&record, records);
                }
            }
            Answer::Welcome {
                token,
                taps,
                coins: taps,
            }
        })
    }

    fn open(&self, at_s: u32, records: &mut Vec<u8>) -> Answer {
        let random = fastrand::u64(..);
        let any = |step| {
            self.sessions
                .open((random as usize).wrapping_add(step), random, at_s)
        };
        let Some(token) = (0..self.sessions.shards()).find_map(any) else {
            return self.refuse(Refused::Full, 0);
        };
        self.figures.add(&self.figures.opened, 1);
        record::write(&Record::Opened { token, at_s }, records);
        Answer::Welcome {
            token,
            taps: 0,
            coins: 0,
        }
    }
}

impl<P: Payload> Table for Game<P> {
    fn hello(&self, token: u64, records: &mut Vec<u8>) -> Answer {
        let at_s = now_s();
        if token == 0 {
            return self.open(at_s, records);
        }
        self.welcome(token, at_s, records)
            .unwrap_or_else(|| self.refuse(Refused::Unknown, 0))
    }

    fn tap(&self, token: u64, number: u32, x: u16, y: u16, records: &mut Vec<u8>) -> Answer {
        let at_s = now_s();
        let fresh = self.draw();
        let given = self.sessions.with(token, |session| {
            session.seen_s = at_s;
            if number == session.taps.wrapping_add(1) && number > 0 {
                (session.x, session.y) = (x, y);
                let coin = fresh.coin();
                session.give(number, fresh);
                return Ok((coin, &self.figures.taps));
            }
            let why = if number > session.taps {
                Refused::Ahead
            } else {
                Refused::Old
            };
            session
                .recent(number)
                .filter(|coin| *coin != 0)
                .map(|coin| (coin, &self.figures.repeated))
                .ok_or(why)
        });
        match given {
            Some(Ok((coin, counter))) => {
                self.figures.add(counter, 1);
                // Also when repeated: the first time may not have been stored.
                let record = Record::Coin {
                    token,
                    number,
                    coin,
                    x,
                    y,
                    at_s,
                };
                record::write(&record, records);
                Answer::Coin { number, coin }
            }
            Some(Err(why)) => self.refuse(why, number),
            None => self.refuse(Refused::Unknown, number),
        }
    }

    fn snapshot(&self, log: &crate::log::Log) -> anyhow::Result<u64> {
        crate::snapshot::write(&self.sessions, log)
    }

    fn expire(&self, idle: Duration) -> Vec<u64> {
        let before_s = now_s().saturating_sub(u32::try_from(idle.as_secs()).unwrap_or(u32::MAX));
        let mut ended = Vec::new();
        for shard in 0..self.sessions.shards() {
            for token in self.sessions.idle_since(shard, before_s) {
                if self.sessions.close(token) {
                    ended.push(token);
                }
            }
        }
        self.figures.add(&self.figures.expired, ended.len() as u64);
        ended
    }

    fn release(&self, ended: &[u64]) {
        ended.iter().for_each(|token| self.sessions.release(*token));
    }

    fn pause(&self, duration: Duration) {
        self.sessions.hold(duration);
    }

    fn sessions(&self) -> usize {
        self.sessions.live()
    }

    fn figures(&self) -> &Figures {
        &self.figures
    }
}

fn now_s() -> u32 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game() -> Game<Option<Box<u64>>> {
        Game::new(Sessions::new(64), 8, Arc::default())
    }

    fn hello(game: &Game<Option<Box<u64>>>, token: u64) -> Answer {
        game.hello(token, &mut Vec::new())
    }

    fn opened(game: &Game<Option<Box<u64>>>) -> u64 {
        match hello(game, 0) {
            Answer::Welcome { token, .. } => token,
            other => panic!("{other:?}"),
        }
    }

    /// Records in the order they were written.
    fn parsed(bytes: &[u8]) -> Vec<Record> {
        let (records, rest) = bytes.as_chunks::<{ record::RECORD }>();
        assert!(rest.is_empty());
        records.iter().filter_map(record::parse).collect()
    }

    #[test]
    fn a_tap_gives_one_coin_however_often_it_is_sent() {
        let game = game();
        let token = opened(&game);
        let (mut first, mut again) = (Vec::new(), Vec::new());
        let answer = game.tap(token, 1, 2, 3, &mut first);
        let same = game.tap(token, 1, 2, 3, &mut again);
        assert_eq!(answer, same);
        assert!(matches!(parsed(&first)[..], [Record::Coin { .. }]));
        assert!(matches!(parsed(&again)[..], [Record::Coin { .. }]));
        let welcome = Answer::Welcome {
            token,
            taps: 1,
            coins: 1,
        };
        assert_eq!(hello(&game, token), welcome);
    }

    #[test]
    fn a_welcome_stores_again_what_may_not_be_stored() {
        let game = game();
        let token = opened(&game);
        for taps in 1..=6u32 {
            game.tap(token, taps, 2, 3, &mut Vec::new());
            let mut records = Vec::new();
            game.hello(token, &mut records);
            let numbers: Vec<u32> = parsed(&records)
                .iter()
                .map(|record| match record {
                    Record::Coin { number, .. } => *number,
                    other => panic!("{other:?}"),
                })
                .collect();
            let expected: Vec<u32> = (taps.saturating_sub(3).max(1)..=taps).collect();
            assert_eq!(numbers, expected);
        }
    }

    #[test]
    fn what_is_out_of_turn_is_refused_and_changes_nothing() {
        let game = game();
        let token = opened(&game);
        for number in 1..=6 {
            game.tap(token, number, 0, 0, &mut Vec::new());
        }
        let why = |token, number| {
            let mut records = Vec::new();
            match game.tap(token, number, 0, 0, &mut records) {
                Answer::Refusal { why, .. } if records.is_empty() => why,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            [8, 2, 0, u32::MAX].map(|number| why(token, number)),
            [Refused::Ahead, Refused::Old, Refused::Old, Refused::Ahead]
        );
        assert_eq!(why(token ^ 1 << 60, 1), Refused::Unknown);
        let welcome = Answer::Welcome {
            token,
            taps: 6,
            coins: 6,
        };
        assert_eq!(hello(&game, token), welcome);
    }

    #[test]
    fn idle_sessions_expire_and_make_room_when_they_are_released() {
        let game = game();
        let tokens: Vec<u64> = (0..64).map(|_| opened(&game)).collect();
        assert!(game.expire(Duration::from_secs(3600)).is_empty());
        game.sessions.with(tokens[0], |session| session.seen_s = 0);
        assert_eq!(game.expire(Duration::from_secs(3600)), [tokens[0]]);
        let why = |token| match hello(&game, token) {
            Answer::Refusal { why, .. } => Some(why),
            _ => None,
        };
        assert_eq!(why(tokens[0]), Some(Refused::Unknown));
        assert_eq!(why(0), Some(Refused::Full));
        game.release(&tokens[..1]);
        assert_eq!(why(0), None);
    }
}
