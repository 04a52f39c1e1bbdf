//! What is asked: each request follows from its number and a seed.

use search::corpus::{BROAD, Corpus, NARROW};

/// Of a hundred requests, so many are for each kind; the rest are for /activity.
const SHARES: [(Kind, usize); 6] = [
    (Kind::Narrow, 47),
    (Kind::Broad, 15),
    (Kind::Similar, 20),
    (Kind::Document, 10),
    (Kind::Dashboard, 4),
    (Kind::Popular, 2),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A search for a word that stands in documents only: 21 KB.
    Narrow,
    /// A search for a word that names publications, too: 32 KB.
    Broad,
    Similar,
    Document,
    Dashboard,
    Popular,
    Activity,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub kind: Kind,
    pub target: String,
    /// The client is far away.
    pub is_far: bool,
}

#[derive(Debug)]
pub struct Mix {
    corpus: Corpus,
    far: f64,
    seed: u64,
}

impl Mix {
    pub fn new(corpus: Corpus, far: f64, seed: u64) -> Mix {
        Mix { corpus, far, seed }
    }

    pub fn question(&self, number: u64) -> Question {
        let seed = self
            .seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(number);
        let mut random = fastrand::Rng::with_seed(seed);
        let kind = pick(random.usize(0..100));
        let mut word = |ranks| self.corpus.word(random.usize(ranks)).to_string();
        let target = match kind {
            Kind::Narrow => format!("/search?q={}", word(NARROW)),
            Kind::Broad => format!("/search?q={}", word(BROAD)),
            Kind::Similar => format!("/similar?uri={}", self.uri(&mut random)),
            Kind::Document => format!("/document?uri={}", self.uri(&mut random)),
            Kind::Dashboard => "/dashboard".to_string(),
            Kind::Popular => "/popular".to_string(),
            Kind::Activity => "/activity".to_string(),
        };
        Question {
            kind,
            target,
            is_far: random.f64() < self.far,
        }
    }

    fn uri(&self, random: &mut fastrand::Rng) -> String {
        self.corpus.uri(random.usize(0..self.corpus.len()))
    }
}

fn pick(mut percent: usize) -> Kind {
    for (kind, share) in SHARES {
        if percent < share {
            return kind;
        }
        percent -= share;
    }
    Kind::Activity
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_kind_is_asked_for_in_its_share_and_a_seed_asks_the_same() {
        let mix = Mix::new(Corpus::new(1, 100, 20), 0.1, 7);
        let again = Mix::new(Corpus::new(1, 100, 20), 0.1, 7);
        let mut counts: HashMap<Kind, usize> = HashMap::new();
        let mut far = 0;
        for number in 0..10_000 {
            let question = mix.question(number);
            assert_eq!(question, again.question(number));
            *counts.entry(question.kind).or_default() += 1;
            far += usize::from(question.is_far);
        }
        for (kind, share) in SHARES {
            let count = counts[&kind];
            assert!(count.abs_diff(share * 100) < 250, "{kind:?}: {count}");
        }
        assert!(counts[&Kind::Activity] > 100);
        assert!(far.abs_diff(1_000) < 150, "{far}");
    }
}
