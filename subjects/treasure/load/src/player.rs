//! One player: a connection, a session, the taps that are not answered yet. No clock and no poll of its own.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use mio::net::TcpStream;
use treasure::protocol::{ANSWER_MAX, Answer, HEADER, Refused, Request, parse_answer};
use treasure::session::RECENT;

/// Taps of one player that may be under way: what the server can repeat after a loss.
pub const UNDER_WAY_MAX: usize = RECENT;
/// Taps that may wait behind those; further ones are dropped.
pub const WAITING_MAX: usize = 64;
const INPUT: usize = 32 * ANSWER_MAX;

/// What happened, for the caller to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A tap that was due then was answered.
    Answered { due_ns: u64 },
    /// A tap that was due then was refused.
    Refused { why: Refused },
    /// The session came back.
    Resumed,
    /// The server's account is not the player's: a coin was lost, or given twice.
    Wrong { acknowledged: u32, server: u32 },
}

/// A tap under way: number, and when it was due.
#[derive(Debug, Clone, Copy)]
struct Tap {
    number: u32,
    due_ns: u64,
}

/// A player's session outlives its connections.
#[derive(Debug, Default)]
pub struct Player {
    pub token: u64,
    /// Number of the last tap that was answered.
    pub acknowledged: u32,
    under_way: VecDeque<Tap>,
    waiting: VecDeque<u64>,
    greeted: bool,
    output: Vec<u8>,
    input: Vec<u8>,
}

impl Player {
    /// A player that comes back to a known session.
    pub fn of(token: u64, acknowledged: u32) -> Player {
        Player {
            token,
            acknowledged,
            ..Player::default()
        }
    }

    /// A fresh connection: says hello. What was under way is sent again after the welcome.
    pub fn connected(&mut self) {
        self.greeted = false;
        self.output.clear();
        self.input.clear();
        self.say(Request::Hello { token: self.token });
    }

    /// A tap is due. False when too many wait already: it is dropped.
    pub fn tap(&mut self, due_ns: u64) -> bool {
        if self.greeted && self.waiting.is_empty() && self.under_way.len() < UNDER_WAY_MAX {
            self.send_tap(due_ns);
            return true;
        }
        if self.waiting.len() == WAITING_MAX {
            return false;
        }
        self.waiting.push_back(due_ns);
        true
    }

    /// True when taps wait for their turn: the last one that was due was not sent.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// When the oldest unanswered tap was due.
    pub fn oldest_due_ns(&self) -> Option<u64> {
        self.under_way
            .front()
            .map(|tap| tap.due_ns)
            .or(self.waiting.front().copied())
    }

    /// Gives up all that is unanswered; when they were due.
    pub fn give_up(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.under_way
            .drain(..)
            .map(|tap| tap.due_ns)
            .chain(self.waiting.drain(..))
    }

    pub fn is_idle(&self) -> bool {
        self.greeted && self.under_way.is_empty() && self.waiting.is_empty()
    }

    fn send_tap(&mut self, due_ns: u64) {
        let number = self
            .under_way
            .back()
            .map_or(self.acknowledged, |tap| tap.number)
            + 1;
        self.under_way.push_back(Tap { number, due_ns });
        self.say_tap(number);
    }

    fn say_tap(&mut self, number: u32) {
        // Anywhere on the field, the same for the same tap.
        let place = number.wrapping_mul(0x9e37_79b9);
        self.say(Request::Tap {
            number,
            x: place as u16,
            y: (place >> 16) as u16,
        });
    }

    fn say(&mut self, request: Request) {
        self.output.extend_from_slice(request.frame().bytes());
    }

    /// True when bytes wait for the socket.
    pub fn wants_write(&self) -> bool {
        !self.output.is_empty()
    }

    /// Writes what the socket takes.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn write(&mut self, stream: &mut impl Write) -> io::Result<()> {
        let mut written = 0;
        while written < self.output.len() {
            match stream.write(&self.output[written..]) {
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.drain(..written);
        Ok(())
    }

    /// Reads what is there and reports what it means.
    ///
    /// # Errors
    /// When the connection is gone, or the server talks nonsense.
    pub fn read(
        &mut self,
        stream: &mut TcpStream,
        report: &mut impl FnMut(Event),
    ) -> io::Result<()> {
        let mut bytes = [0; INPUT];
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => {
                    self.hear(&bytes[..more], report)?;
                    if more < INPUT {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes bytes from the server.
    ///
    /// # Errors
    /// When they are no answers.
    pub fn hear(&mut self, bytes: &[u8], report: &mut impl FnMut(Event)) -> io::Result<()> {
        self.input.extend_from_slice(bytes);
        let mut taken = 0;
        let broken = |_| io::Error::new(io::ErrorKind::InvalidData, "the server sent no frame");
        while let Some((answer, length)) = parse_answer(&self.input[taken..]).map_err(broken)? {
            taken += length;
            self.answer(answer, report)?;
        }
        debug_assert!(self.input.len() - taken < ANSWER_MAX + HEADER);
        self.input.drain(..taken);
        Ok(())
    }

    fn answer(&mut self, answer: Answer, report: &mut impl FnMut(Event)) -> io::Result<()> {
        match answer {
            Answer::Welcome { token, taps, .. } => self.welcome(token, taps, report),
            Answer::Coin { number, .. } => {
                // A tap that was sent twice is answered twice.
                if self
                    .under_way
                    .front()
                    .is_some_and(|tap| tap.number == number)
                {
                    let due_ns = self.under_way.pop_front().map_or(0, |tap| tap.due_ns);
                    self.acknowledged = number;
                    report(Event::Answered { due_ns });
                    self.send_waiting();
                }
            }
            Answer::Refusal { why, number } => return self.refused(why, number, report),
            Answer::Pong(_) => {}
        }
        Ok(())
    }

    /// A tap that is refused is over. Without its session a player opens another, and its later taps go on there.
    ///
    /// # Errors
    /// When there is no room for it: it hangs up, and tries again.
    fn refused(
        &mut self,
        why: Refused,
        number: u32,
        report: &mut impl FnMut(Event),
    ) -> io::Result<()> {
        if why == Refused::Full {
            return Err(io::Error::other("the server is full"));
        }
        if why == Refused::Unknown && self.token != 0 {
            self.end_session(report);
        } else if let Some(at) = self.under_way.iter().position(|tap| tap.number == number) {
            self.under_way.remove(at);
            report(Event::Refused { why });
        }
        Ok(())
    }

    fn end_session(&mut self, report: &mut impl FnMut(Event)) {
        (self.token, self.acknowledged) = (0, 0);
        self.greeted = false;
        for _ in self.under_way.drain(..) {
            let why = Refused::Unknown;
            report(Event::Refused { why });
        }
        self.say(Request::Hello { token: 0 });
    }

    fn welcome(&mut self, token: u64, taps: u32, report: &mut impl FnMut(Event)) {
        let is_known = self.token != 0;
        self.token = token;
        self.greeted = true;
        if is_known {
            // What was sent may have been given and its answer lost; nothing else may differ.
            let sent = self
                .under_way
                .back()
                .map_or(self.acknowledged, |tap| tap.number);
            if !(self.acknowledged..=sent).contains(&taps) {
                report(Event::Wrong {
                    acknowledged: self.acknowledged,
                    server: taps,
                });
                self.acknowledged = taps;
                self.under_way.clear();
            }
            report(Event::Resumed);
        }
        for at in 0..self.under_way.len() {
            self.say_tap(self.under_way[at].number);
        }
        self.send_waiting();
    }

    fn send_waiting(&mut self) {
        while self.under_way.len() < UNDER_WAY_MAX {
            let Some(due_ns) = self.waiting.pop_front() else {
                return;
            };
            self.send_tap(due_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(player: &mut Player, answers: &[Answer]) -> Vec<Event> {
        let mut events = Vec::new();
        for answer in answers {
            player
                .hear(answer.frame().bytes(), &mut |event| events.push(event))
                .unwrap();
        }
        events
    }

    fn sent(player: &mut Player) -> Vec<Request> {
        let bytes = std::mem::take(&mut player.output);
        let mut requests = Vec::new();
        let mut at = 0;
        while let Some((request, length)) = treasure::protocol::parse_request(&bytes[at..]).unwrap()
        {
            requests.push(request);
            at += length;
        }
        requests
    }

    const WELCOME: Answer = Answer::Welcome {
        token: 5,
        taps: 0,
        coins: 0,
    };

    #[test]
    fn taps_before_the_welcome_wait_with_their_due_times_running() {
        let mut player = Player::default();
        player.connected();
        (1..=6).for_each(|due| assert!(player.tap(due)));
        assert_eq!(sent(&mut player), [Request::Hello { token: 0 }]);
        assert!(hear(&mut player, &[WELCOME]).is_empty());
        assert_eq!(sent(&mut player).len(), UNDER_WAY_MAX);
        let events = hear(&mut player, &[Answer::Coin { number: 1, coin: 9 }]);
        assert_eq!(events, [Event::Answered { due_ns: 1 }]);
        assert_eq!(sent(&mut player).len(), 1);
        assert_eq!(player.oldest_due_ns(), Some(2));
    }

    #[test]
    fn what_was_under_way_is_sent_again_after_a_loss() {
        let mut player = Player::default();
        player.connected();
        hear(&mut player, &[WELCOME]);
        player.tap(1);
        player.tap(2);
        player.connected();
        let events = hear(
            &mut player,
            &[Answer::Welcome {
                token: 5,
                taps: 1,
                coins: 1,
            }],
        );
        assert_eq!(events, [Event::Resumed]);
        let numbers: Vec<_> = sent(&mut player)
            .into_iter()
            .filter_map(|request| match request {
                Request::Tap { number, .. } => Some(number),
                _ => None,
            })
            .collect();
        assert_eq!(numbers, [1, 2]);
    }

    #[test]
    fn a_lost_coin_and_one_too_many_are_seen() {
        for taps in [1, 3] {
            let mut player = Player::of(5, 2);
            player.connected();
            let events = hear(
                &mut player,
                &[Answer::Welcome {
                    token: 5,
                    taps,
                    coins: taps,
                }],
            );
            assert_eq!(
                events[0],
                Event::Wrong {
                    acknowledged: 2,
                    server: taps
                }
            );
        }
    }

    #[test]
    fn a_player_whose_session_ended_opens_another_and_plays_on() {
        let unknown = |number| Answer::Refusal {
            why: Refused::Unknown,
            number,
        };
        // Under way when it ended: those are lost, as the session is; what was due later is not.
        let mut player = Player::default();
        player.connected();
        hear(&mut player, &[WELCOME]);
        (1..=3).for_each(|due| assert!(player.tap(due)));
        sent(&mut player);
        let events = hear(&mut player, &[unknown(1)]);
        assert_eq!(sent(&mut player), [Request::Hello { token: 0 }]);
        assert!(player.tap(4));
        let later = hear(&mut player, &[unknown(2), unknown(3)]);
        let refused = [events, later].concat();
        let is_refusal = |event: &&Event| matches!(event, Event::Refused { .. });
        assert_eq!(refused.iter().filter(is_refusal).count(), 3, "{refused:?}");
        let fresh = Answer::Welcome {
            token: 6,
            taps: 0,
            coins: 0,
        };
        assert!(hear(&mut player, &[fresh]).is_empty());
        assert!(matches!(
            sent(&mut player)[..],
            [Request::Tap { number: 1, .. }]
        ));
        let events = hear(&mut player, &[Answer::Coin { number: 1, coin: 9 }]);
        assert_eq!(events, [Event::Answered { due_ns: 4 }]);

        // Ended while nobody was connected: no tap is lost to it.
        let mut player = Player::of(5, 2);
        player.connected();
        assert!(player.tap(7));
        sent(&mut player);
        assert_eq!(hear(&mut player, &[unknown(0)]).len(), 0);
        assert_eq!(sent(&mut player), [Request::Hello { token: 0 }]);
        assert_eq!((player.token, player.oldest_due_ns()), (0, Some(7)));
    }

    #[test]
    fn a_refusal_ends_the_tap_it_names_and_no_other() {
        let mut player = Player::default();
        player.connected();
        hear(&mut player, &[WELCOME]);
        (1..=3).for_each(|due| assert!(player.tap(due)));
        let not_stored = Answer::Refusal {
            why: Refused::NotStored,
            number: 9,
        };
        assert!(hear(&mut player, &[not_stored]).is_empty());
        assert_eq!(player.oldest_due_ns(), Some(1));
    }

    #[test]
    fn without_room_the_player_hangs_up_and_tries_again_with_its_taps() {
        let mut player = Player::default();
        player.connected();
        assert!(player.tap(7));
        let full = Answer::Refusal {
            why: Refused::Full,
            number: 0,
        };
        assert!(player.hear(full.frame().bytes(), &mut |_| ()).is_err());
        assert_eq!(player.oldest_due_ns(), Some(7));
    }

    #[test]
    fn a_player_that_is_not_answered_drops_what_does_not_fit() {
        let mut player = Player::default();
        player.connected();
        let taken = (0..100).filter(|due| player.tap(*due)).count();
        assert_eq!(taken, WAITING_MAX);
        assert_eq!(player.give_up().count(), WAITING_MAX);
    }

    #[test]
    fn bytes_that_are_no_answer_end_the_connection() {
        let mut player = Player::default();
        assert!(player.hear(&[0xff; 40], &mut |_| ()).is_err());
    }
}
