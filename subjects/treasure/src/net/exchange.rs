//! One connection's conversation: frames in, answers out, records to be stored in between.

use crate::game::Table;
use crate::protocol::{Answer, Broken, HEADER, Refused, Request, parse_request};

/// Bytes read at a time: the most that one connection can make the server hold.
pub const INPUT: usize = 256;
/// The smallest request is 11 bytes, the largest answer 19.
pub const OUTPUT: usize = (INPUT / (HEADER + 8) + 1) * crate::protocol::ANSWER_MAX;

/// Input not yet taken and answers not yet sent, in place.
pub struct Talk {
    token: u64,
    pub input: [u8; INPUT],
    pub filled: usize,
    pub output: [u8; OUTPUT],
    pub ready: usize,
}

impl Default for Talk {
    fn default() -> Talk {
        Talk {
            token: 0,
            input: [0; INPUT],
            filled: 0,
            output: [0; OUTPUT],
            ready: 0,
        }
    }
}

impl Talk {
    /// The connection has a session.
    pub fn is_known(&self) -> bool {
        self.token != 0
    }

    /// Plays every whole frame of the input. Answers go to `output`, to be sent once `records` are stored.
    ///
    /// # Errors
    /// When the input is no frame: the connection is to be dropped.
    pub fn play(&mut self, table: &dyn Table, records: &mut Vec<u8>) -> Result<(), Broken> {
        let mut taken = 0;
        self.ready = 0;
        while let Some((request, length)) = parse_request(&self.input[taken..self.filled])? {
            taken += length;
            let frame = answer(table, &mut self.token, request, records).frame();
            let bytes = frame.bytes();
            self.output[self.ready..self.ready + bytes.len()].copy_from_slice(bytes);
            self.ready += bytes.len();
        }
        self.input.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        Ok(())
    }
}

/// One request of a connection whose session is `token` (0 before the hello).
pub fn answer(
    table: &dyn Table,
    token: &mut u64,
    request: Request,
    records: &mut Vec<u8>,
) -> Answer {
    match request {
        Request::Hello { token: known } => {
            let answer = table.hello(known, records);
            if let Answer::Welcome { token: given, .. } = answer {
                *token = given;
            }
            answer
        }
        Request::Tap { number, .. } if *token == 0 => Answer::Refusal {
            why: Refused::NoHello,
            number,
        },
        Request::Tap { number, x, y } => table.tap(*token, number, x, y, records),
        Request::Ping(bytes) => Answer::Pong(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::game::Game;
    use crate::record;
    use crate::session::Sessions;

    #[test]
    fn a_full_input_of_the_smallest_frames_fits_the_output_and_rests_are_kept() {
        let game = Game::new(Sessions::<u64>::new(64), 4, Arc::default());
        let mut talk = Talk::default();
        let frame = Request::Hello { token: 0 }.frame();
        let whole = INPUT / frame.bytes().len();
        for at in 0..INPUT {
            talk.input[at] = frame.bytes()[at % frame.bytes().len()];
        }
        talk.filled = INPUT;
        let mut records = Vec::new();
        talk.play(&game, &mut records).unwrap();
        assert_eq!(talk.ready, whole * crate::protocol::ANSWER_MAX);
        assert_eq!(records.len(), whole * record::RECORD);
        assert_eq!(talk.filled, INPUT % frame.bytes().len());
    }

    #[test]
    fn a_tap_before_the_hello_is_refused() {
        let game = Game::new(Sessions::<u64>::new(64), 4, Arc::default());
        let tap = Request::Tap {
            number: 1,
            x: 0,
            y: 0,
        };
        let mut records = Vec::new();
        let refusal = answer(&game, &mut 0, tap, &mut records);
        assert!(records.is_empty());
        assert_eq!(
            refusal,
            Answer::Refusal {
                why: Refused::NoHello,
                number: 1
            }
        );
    }
}
