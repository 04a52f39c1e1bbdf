//! The rules: what a hello and a tap do. No network, no file.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::figures::Figures;
use crate::protocol::{Answer, Refused};
use crate::record::Record;
use crate::session::{Payload, Sessions};

/// Most coins drawn for a tap.
pub const SPRAY_MAX: usize = 64;

/// What a request changed, to be stored before it is answered, and the answer.
pub type Play = (Option<Record>, Answer);

/// The game without its kind of payload, for the network.
pub trait Table: Send + std::marker::Sync {
    fn hello(&self, token: u64) -> Play;
    fn tap(&self, token: u64, number: u32, x: u16, y: u16) -> Play;
    /// Takes a snapshot now.
    fn snapshot(&self, log: &crate::log::Log) -> anyhow::Result<u64>;
    /// Ends sessions not seen for `idle`; their records.
    fn expire(&self, idle: Duration) -> Vec<Record>;
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

    fn refuse(&self, why: Refused, number: u32) -> Play {
        self.figures.add(&self.figures.refused, 1);
        (None, Answer::Refusal { why, number })
    }
}

impl<P: Payload> Table for Game<P> {
    fn hello(&self, token: u64) -> Play {
        let at_s = now_s();
        if token != 0 {
            let known = self.sessions.with(token, |session| {
                session.seen_s = at_s;
                session.taps
            });
            return match known {
                Some(taps) => (
                    None,
                    Answer::Welcome {
                        token,
                        taps,
                        coins: taps,
                    },
                ),
                None => self.refuse(Refused::Unknown, 0),
            };
        }
        let random = fastrand::u64(..);
        let any = |step| {
            self.sessions
                .open((random as usize).wrapping_add(step), random, at_s)
        };
        match (0..self.sessions.shards()).find_map(any) {
            Some(token) => {
                self.figures.add(&self.figures.opened, 1);
                let answer = Answer::Welcome {
                    token,
                    taps: 0,
                    coins: 0,
                };
                (Some(Record::Opened { token, at_s }), answer)
            }
            None => self.refuse(Refused::Full, 0),
        }
    }

    fn tap(&self, token: u64, number: u32, x: u16, y: u16) -> Play {
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
                (Some(record), Answer::Coin { number, coin })
            }
            Some(Err(why)) => self.refuse(why, number),
            None => self.refuse(Refused::Unknown, number),
        }
    }

    fn snapshot(&self, log: &crate::log::Log) -> anyhow::Result<u64> {
        crate::snapshot::write(&self.sessions, log)
    }

    fn expire(&self, idle: Duration) -> Vec<Record> {
        let before_s = now_s().saturating_sub(u32::try_from(idle.as_secs()).unwrap_or(u32::MAX));
        let mut closed = Vec::new();
        for shard in 0..self.sessions.shards() {
            for token in self.sessions.idle_since(shard, before_s) {
                if self.sessions.close(token) {
                    closed.push(Record::Closed { token });
                }
            }
        }
        self.figures.add(&self.figures.expired, closed.len() as u64);
        closed
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

    fn token(play: Play) -> u64 {
        match play.1 {
            Answer::Welcome { token, .. } => token,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_tap_gives_one_coin_however_often_it_is_sent() {
        let game = game();
        let token = token(game.hello(0));
        let (first, answer) = game.tap(token, 1, 2, 3);
        let (again, same) = game.tap(token, 1, 2, 3);
        assert_eq!(answer, same);
        assert!(matches!(
            (first, again),
            (Some(Record::Coin { .. }), Some(Record::Coin { .. }))
        ));
        let (_, welcome) = game.hello(token);
        assert_eq!(
            welcome,
            Answer::Welcome {
                token,
                taps: 1,
                coins: 1
            }
        );
    }

    #[test]
    fn what_is_out_of_turn_is_refused_and_changes_nothing() {
        let game = game();
        let token = token(game.hello(0));
        for number in 1..=6 {
            game.tap(token, number, 0, 0);
        }
        let why = |number| match game.tap(token, number, 0, 0) {
            (None, Answer::Refusal { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (why(8), why(2), why(0), why(u32::MAX)),
            (Refused::Ahead, Refused::Old, Refused::Old, Refused::Ahead)
        );
        assert_eq!(
            game.hello(token).1,
            Answer::Welcome {
                token,
                taps: 6,
                coins: 6
            }
        );
        assert!(matches!(
            game.tap(token ^ 1 << 60, 1, 0, 0).1,
            Answer::Refusal {
                why: Refused::Unknown,
                ..
            }
        ));
    }

    #[test]
    fn idle_sessions_expire_and_make_room() {
        let game = game();
        let tokens: Vec<u64> = (0..)
            .map_while(|_| match game.hello(0).1 {
                Answer::Welcome { token, .. } => Some(token),
                _ => None,
            })
            .take(64)
            .collect();
        assert!(!tokens.is_empty());
        assert!(game.expire(Duration::from_secs(3600)).is_empty());
        // Seen before the next second: all of them.
        game.sessions.with(tokens[0], |session| session.seen_s = 0);
        assert_eq!(
            game.expire(Duration::from_secs(3600)),
            [Record::Closed { token: tokens[0] }]
        );
        assert!(matches!(
            game.hello(tokens[0]).1,
            Answer::Refusal {
                why: Refused::Unknown,
                ..
            }
        ));
    }
}
