//! Sessions in memory: fixed size, in chunks that never move, found by the slot that is part of the token.

use std::sync::{Mutex, MutexGuard};

/// Coins that are kept to be repeated: the last taps of a session may be sent again after a lost answer.
pub const RECENT: usize = 4;
/// Kinds of coins in an inventory.
pub const KINDS: usize = 6;
/// Bits of a token that name the slot; the other 36 are random.
const SLOT_BITS: u32 = 28;
/// Most sessions that a token can name.
pub const SESSIONS_MAX: usize = 1 << SLOT_BITS;
const SHARDS: usize = 64;
/// Sessions that are allocated at a time: 80 KiB.
const CHUNK: usize = 1024;

/// A coin as the session keeps it.
pub trait Payload: Send + Default + 'static {
    fn new(coin: u64) -> Self;
    fn coin(&self) -> u64;
}

/// No allocation at all.
impl Payload for u64 {
    fn new(coin: u64) -> u64 {
        coin
    }

    fn coin(&self) -> u64 {
        *self
    }
}

/// Eight bytes on the heap, as in the history.
impl Payload for Option<Box<u64>> {
    fn new(coin: u64) -> Self {
        // What the compiler could see through, it would not allocate.
        std::hint::black_box(Some(Box::new(coin)))
    }

    fn coin(&self) -> u64 {
        self.as_deref().copied().unwrap_or(0)
    }
}

/// One player. 80 bytes, and 4 x 8 on the heap where coins are boxed.
#[derive(Debug, Default)]
pub struct Session<P> {
    /// 0 for a free slot.
    pub token: u64,
    /// Number of the last tap that was answered; as many coins were given.
    pub taps: u32,
    /// Seconds since 1970 of the last sign of life.
    pub seen_s: u32,
    pub x: u16,
    pub y: u16,
    /// Coins by kind.
    pub inventory: [u32; KINDS],
    /// The coin of tap `n` is at `n % RECENT`.
    recent: [P; RECENT],
}

const _: () = assert!(size_of::<Session<u64>>() == 80);
const _: () = assert!(size_of::<Session<Option<Box<u64>>>>() == 80);

impl<P: Payload> Session<P> {
    pub fn give(&mut self, number: u32, coin: P) {
        self.taps = number;
        self.inventory[kind_of(coin.coin())] += 1;
        self.recent[number as usize % RECENT] = coin;
    }

    /// The coin of a recent tap; `None` for one that is older or has not been.
    pub fn recent(&self, number: u32) -> Option<u64> {
        let age = self.taps.checked_sub(number)?;
        (number > 0 && (age as usize) < RECENT)
            .then(|| self.recent[number as usize % RECENT].coin())
    }

    /// A session as it was stored.
    pub fn restored(token: u64, taps: u32, seen_s: u32) -> Session<P> {
        Session {
            token,
            taps,
            seen_s,
            ..Session::default()
        }
    }

    /// Puts a stored coin back in its place, without counting it.
    pub fn restore_recent(&mut self, number: u32, coin: u64) {
        self.recent[number as usize % RECENT] = P::new(coin);
    }
}

/// Kind of a coin: its value's low bits.
pub fn kind_of(coin: u64) -> usize {
    (coin % KINDS as u64) as usize
}

struct Shard<P> {
    chunks: Vec<Box<[Session<P>]>>,
    /// Slots in use once and free again.
    free: Vec<u32>,
    /// First index never used.
    next: u32,
    live: usize,
}

/// All sessions.
pub struct Sessions<P> {
    shards: Vec<Mutex<Shard<P>>>,
    shard_max: u32,
}

fn slot_of(token: u64) -> usize {
    (token & (SESSIONS_MAX as u64 - 1)) as usize
}

impl<P: Payload> Sessions<P> {
    /// Room for `sessions_max`, rounded up to a multiple of 64; memory is taken as they come.
    pub fn new(sessions_max: usize) -> Sessions<P> {
        let shard = || {
            Mutex::new(Shard {
                chunks: Vec::new(),
                free: Vec::new(),
                next: 0,
                live: 0,
            })
        };
        Sessions {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            shard_max: sessions_max.min(SESSIONS_MAX).div_ceil(SHARDS) as u32,
        }
    }

    /// A new session in a shard of the caller's choice (threads that spread do not meet); `None` when that is full.
    pub fn open(&self, shard: usize, random: u64, seen_s: u32) -> Option<u64> {
        let shard = shard % SHARDS;
        let mut inside = self.lock(shard);
        let index = match inside.free.pop() {
            Some(index) => index,
            None if inside.next < self.shard_max => {
                inside.next += 1;
                inside.next - 1
            }
            None => return None,
        };
        let slot = index as usize * SHARDS + shard;
        // Never 0, also for slot 0.
        let token = (random | 1 << SLOT_BITS) & !(SESSIONS_MAX as u64 - 1) | slot as u64;
        let session = Session {
            token,
            seen_s,
            ..Session::default()
        };
        *inside.slot(index as usize) = session;
        inside.live += 1;
        Some(token)
    }

    /// Does `work` on the session of `token`; `None` when there is none.
    pub fn with<T>(&self, token: u64, work: impl FnOnce(&mut Session<P>) -> T) -> Option<T> {
        let slot = slot_of(token);
        let mut inside = self.lock(slot % SHARDS);
        let session = inside.get(slot / SHARDS)?;
        (token != 0 && session.token == token).then(|| work(session))
    }

    /// Puts a stored session at the slot that its token names. False when it lies beyond the maximum.
    pub fn restore(&self, session: Session<P>) -> bool {
        let slot = slot_of(session.token);
        let mut inside = self.lock(slot % SHARDS);
        let index = slot / SHARDS;
        if index as u64 >= u64::from(self.shard_max) {
            return false;
        }
        while inside.next as usize <= index {
            let skipped = inside.next;
            inside.free.push(skipped);
            inside.next += 1;
        }
        let place = inside.slot(index);
        let was_free = place.token == 0;
        *place = session;
        if was_free {
            inside.live += 1;
        }
        true
    }

    /// After all `restore`s: slots that hold nothing are free.
    pub fn restored(&self) {
        for shard in 0..SHARDS {
            let mut inside = self.lock(shard);
            let inside = &mut *inside;
            let chunks = &inside.chunks;
            inside.free.retain(|index| {
                chunks
                    .get(*index as usize / CHUNK)
                    .is_none_or(|chunk| chunk[*index as usize % CHUNK].token == 0)
            });
        }
    }

    /// Ends the session of `token`, if it is still the one in its slot. The slot is used again after
    /// [`Sessions::release`]: not before the end is in the log, or a kill would bring back two for one slot.
    pub fn close(&self, token: u64) -> bool {
        let slot = slot_of(token);
        let mut inside = self.lock(slot % SHARDS);
        let index = slot / SHARDS;
        match inside.get(index) {
            Some(session) if token != 0 && session.token == token => {
                *session = Session::default();
                inside.live -= 1;
                true
            }
            _ => false,
        }
    }

    /// Gives the slot of a closed session free.
    pub fn release(&self, token: u64) {
        let slot = slot_of(token);
        self.lock(slot % SHARDS).free.push((slot / SHARDS) as u32);
    }

    /// Tokens of sessions of a shard that were last seen before `before_s`.
    pub fn idle_since(&self, shard: usize, before_s: u32) -> Vec<u64> {
        let inside = self.lock(shard % SHARDS);
        let all = inside.chunks.iter().flat_map(|chunk| chunk.iter());
        all.filter(|session| session.token != 0 && session.seen_s < before_s)
            .map(|session| session.token)
            .collect()
    }

    /// Shows every session of one shard, under its lock.
    pub fn each(&self, shard: usize, mut see: impl FnMut(&Session<P>)) {
        let inside = self.lock(shard % SHARDS);
        for chunk in &inside.chunks {
            chunk
                .iter()
                .filter(|session| session.token != 0)
                .for_each(&mut see);
        }
    }

    /// Keeps every session locked for so long.
    pub fn hold(&self, duration: std::time::Duration) {
        let _locked: Vec<_> = (0..SHARDS).map(|shard| self.lock(shard)).collect();
        std::thread::sleep(duration);
    }

    pub fn shards(&self) -> usize {
        SHARDS
    }

    pub fn live(&self) -> usize {
        (0..SHARDS).map(|shard| self.lock(shard).live).sum()
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard<P>> {
        // A thread that panicked under the lock leaves a session that is still whole.
        self.shards[shard]
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<P: Payload> Shard<P> {
    fn get(&mut self, index: usize) -> Option<&mut Session<P>> {
        self.chunks
            .get_mut(index / CHUNK)
            .map(|chunk| &mut chunk[index % CHUNK])
    }

    /// The same, allocating what is missing up to there.
    fn slot(&mut self, index: usize) -> &mut Session<P> {
        while self.chunks.len() <= index / CHUNK {
            self.chunks
                .push((0..CHUNK).map(|_| Session::default()).collect());
        }
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_finds_its_session_and_no_other() {
        let sessions = Sessions::<u64>::new(1000);
        let tokens: Vec<u64> = (0..500)
            .map(|at| sessions.open(at, 7 << 40, 10).unwrap())
            .collect();
        for token in &tokens {
            assert_eq!(sessions.with(*token, |session| session.token), Some(*token));
            assert_eq!(sessions.with(*token ^ 1 << 50, |_| ()), None);
        }
        assert_eq!(sessions.live(), 500);
        assert!(sessions.with(0, |_| ()).is_none());
        assert!(sessions.with(u64::MAX, |_| ()).is_none());
    }

    #[test]
    fn a_slot_is_used_again_under_another_token() {
        let sessions = Sessions::<u64>::new(64);
        let first = sessions.open(3, 1 << 40, 0).unwrap();
        assert!(sessions.open(3, 1 << 40, 0).is_none());
        assert!(sessions.close(first) && !sessions.close(first));
        assert!(sessions.open(3, 2 << 40, 0).is_none());
        sessions.release(first);
        let second = sessions.open(3, 2 << 40, 0).unwrap();
        assert_eq!(slot_of(first), slot_of(second));
        assert!(sessions.with(first, |_| ()).is_none());
    }

    #[test]
    fn only_the_last_coins_can_be_repeated() {
        let mut session = Session::<Option<Box<u64>>>::default();
        for number in 1..=6 {
            session.give(number, Payload::new(u64::from(number) * 100));
        }
        assert_eq!(session.recent(6), Some(600));
        assert_eq!(session.recent(3), Some(300));
        assert_eq!(
            (session.recent(2), session.recent(7), session.recent(0)),
            (None, None, None)
        );
        assert_eq!(session.inventory.iter().sum::<u32>(), 6);
    }

    #[test]
    fn stored_sessions_come_back_in_any_order_and_gaps_are_free() {
        let sessions = Sessions::<u64>::new(64 * 10);
        let token = |slot: u64| 9 << 40 | slot;
        for slot in [64 * 5, 64 * 2] {
            assert!(sessions.restore(Session::restored(token(slot), 3, 0)));
        }
        sessions.restored();
        assert!(!sessions.restore(Session::restored(token(64 * 10), 3, 0)));
        assert_eq!(sessions.live(), 2);
        let fresh: Vec<_> = (0..8)
            .map(|_| slot_of(sessions.open(0, 1 << 40, 0).unwrap()))
            .collect();
        assert!(
            !fresh.contains(&(64 * 5)) && !fresh.contains(&(64 * 2)),
            "{fresh:?}"
        );
        assert!(sessions.open(0, 1 << 40, 0).is_none());
    }
}
