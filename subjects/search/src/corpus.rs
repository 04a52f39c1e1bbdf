//! The documents: made from a seed, each from its own number, so that one can be made anew without the others.

use fastrand::Rng;

/// Different words. Their use falls with their rank (Zipf): the word of rank 1,000 stands in one document of eighteen.
pub const WORDS: usize = 6_000;
/// Dimensions of an embedding, as models of today have them.
pub const DIMENSIONS: usize = 1_024;
/// Subjects that documents are about; embeddings lie around one point for each.
pub const TOPICS: usize = 64;
/// Ranks of the words that names of publications are made of: a search for one of them meets many publications.
pub const BROAD: std::ops::Range<usize> = 600..620;
/// Ranks of words that stand in documents only, in 100 to 400 of 6,000.
pub const NARROW: std::ops::Range<usize> = 800..3_000;
/// Words of a document.
const LENGTH: std::ops::Range<usize> = 350..750;
/// 2026-01-01, from which the dates of documents count back.
const NEWEST_S: u64 = 1_767_225_600;
const YEAR_S: u64 = 365 * 86_400;
/// How far an embedding is scattered about its topic, per dimension; the topic itself has length 1.
const SCATTER: f32 = 0.02;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    pub uri: String,
    pub did: String,
    pub name: String,
    pub description: String,
    pub base_path: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// From 1.
    pub id: i64,
    pub uri: String,
    pub did: String,
    pub title: String,
    pub content: String,
    /// Separated by spaces.
    pub tags: String,
    /// Seconds since 1970.
    pub created_at_s: i64,
    pub publication_uri: String,
    /// Of length 1.
    pub embedding: Vec<f32>,
}

/// Makes documents and publications.
#[derive(Debug)]
pub struct Corpus {
    seed: u64,
    documents: usize,
    words: Vec<String>,
    publications: Vec<Publication>,
    topics: Vec<Vec<f32>>,
}

impl Corpus {
    /// At least one of each is made.
    pub fn new(seed: u64, documents: usize, publications: usize) -> Corpus {
        let words = words(seed);
        let publications = (0..publications.max(1))
            .map(|number| publication(seed, number, &words))
            .collect();
        let mut random = Rng::with_seed(mix(seed, 3, 0));
        let topics = (0..TOPICS).map(|_| direction(&mut random)).collect();
        Corpus {
            seed,
            documents: documents.max(1),
            words,
            publications,
            topics,
        }
    }

    pub fn publications(&self) -> &[Publication] {
        &self.publications
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.documents
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// The points that embeddings lie around.
    pub fn topics(&self) -> &[Vec<f32>] {
        &self.topics
    }

    /// Document `number` (from 0) as it was first written, version 0, or edited since.
    pub fn document(&self, number: usize, version: u64) -> Document {
        let of = Rng::with_seed(mix(self.seed, 1, number as u64)).usize(0..self.publications.len());
        let publication = &self.publications[of];
        let mut random = Rng::with_seed(mix(self.seed, 5 + version, number as u64));
        let id = number as i64 + 1;
        Document {
            id,
            uri: self.uri(number),
            did: publication.did.clone(),
            title: capital(&self.sentence(&mut random, 3..9)),
            content: self.text(&mut random),
            tags: self.sentence(&mut random, 1..5),
            created_at_s: (NEWEST_S - random.u64(0..YEAR_S)) as i64,
            publication_uri: publication.uri.clone(),
            embedding: around(&self.topics[of % TOPICS], &mut random),
        }
    }

    /// The address of document `number`, the same in every version.
    pub fn uri(&self, number: usize) -> String {
        let mut random = Rng::with_seed(mix(self.seed, 1, number as u64));
        let of = random.usize(0..self.publications.len());
        let key = key(&mut random, 13);
        format!(
            "at://{}/pub.leaflet.document/{key}",
            self.publications[of].did
        )
    }

    /// A word by its rank, from 0.
    pub fn word(&self, rank: usize) -> &str {
        &self.words[rank % WORDS]
    }

    fn text(&self, random: &mut Rng) -> String {
        let mut left = random.usize(LENGTH);
        let mut text = String::with_capacity(left * 8);
        while left > 0 {
            let sentence = self.sentence(random, 6..20);
            left = left.saturating_sub(sentence.split(' ').count());
            text.push_str(&capital(&sentence));
            text.push_str(". ");
        }
        text
    }

    fn sentence(&self, random: &mut Rng, length: std::ops::Range<usize>) -> String {
        let words: Vec<_> = (0..random.usize(length))
            .map(|_| self.word(rank(random)))
            .collect();
        words.join(" ")
    }
}

/// Ranks whose logarithm is even: the word of rank r is used in proportion to 1 / r.
fn rank(random: &mut Rng) -> usize {
    ((WORDS as f64).powf(random.f64()) as usize - 1).min(WORDS - 1)
}

/// Words that can be spoken, all different.
fn words(seed: u64) -> Vec<String> {
    const BEGINNINGS: [&str; 16] = [
        "b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr",
    ];
    const MIDDLES: [&str; 8] = ["a", "e", "i", "o", "u", "ea", "ou", "y"];
    const ENDS: [&str; 8] = ["", "n", "r", "s", "l", "t", "m", "nd"];
    let mut random = Rng::with_seed(mix(seed, 0, 0));
    let mut seen = std::collections::HashSet::new();
    let mut words = Vec::with_capacity(WORDS);
    while words.len() < WORDS {
        let mut word = String::new();
        for _ in 0..random.usize(2..4) {
            for part in [&BEGINNINGS[..], &MIDDLES, &ENDS] {
                word.push_str(part[random.usize(0..part.len())]);
            }
        }
        if seen.insert(word.clone()) {
            words.push(word);
        }
    }
    words
}

fn publication(seed: u64, number: usize, words: &[String]) -> Publication {
    let mut random = Rng::with_seed(mix(seed, 4, number as u64));
    let broad = [random.usize(BROAD), random.usize(BROAD)].map(|rank| words[rank].clone());
    let own = &words[random.usize(NARROW)];
    let did = format!("did:plc:{}", key(&mut random, 24));
    Publication {
        uri: format!(
            "at://{did}/pub.leaflet.publication/{}",
            key(&mut random, 13)
        ),
        name: format!("{} {own}", capital(&broad[0])),
        description: format!("{} of {own} and {}", capital(&broad[1]), broad[0]),
        base_path: format!("{own}-{number}.leaflet.pub"),
        did,
    }
}

fn key(random: &mut Rng, length: usize) -> String {
    const LETTERS: &[u8] = b"234567abcdefghijklmnopqrstuvwxyz";
    (0..length)
        .map(|_| char::from(LETTERS[random.usize(0..LETTERS.len())]))
        .collect()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn direction(random: &mut Rng) -> Vec<f32> {
    unit((0..DIMENSIONS).map(|_| normal(random)).collect())
}

fn around(topic: &[f32], random: &mut Rng) -> Vec<f32> {
    unit(
        topic
            .iter()
            .map(|at| at + SCATTER * normal(random))
            .collect(),
    )
}

/// Nearly normal, of deviation 1: the sum of twelve even ones.
fn normal(random: &mut Rng) -> f32 {
    (0..12).map(|_| random.f32()).sum::<f32>() - 6.0
}

fn unit(mut of: Vec<f32>) -> Vec<f32> {
    let length = of.iter().map(|x| x * x).sum::<f32>().sqrt();
    of.iter_mut().for_each(|x| *x /= length);
    of
}

/// A seed for the number of something of a kind (splitmix64 over all three).
fn mix(seed: u64, kind: u64, number: u64) -> u64 {
    [seed, kind, number].into_iter().fold(0, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_documents_and_another_seed_others() {
        let (one, same, other) = (
            Corpus::new(1, 50, 10),
            Corpus::new(1, 50, 10),
            Corpus::new(2, 50, 10),
        );
        for number in 0..50 {
            assert_eq!(one.document(number, 0), same.document(number, 0));
            assert_ne!(one.document(number, 0), other.document(number, 0));
        }
        assert_eq!(one.publications(), same.publications());
    }

    #[test]
    fn an_edit_keeps_the_address_and_the_publication() {
        let corpus = Corpus::new(1, 50, 10);
        let (first, edited) = (corpus.document(7, 0), corpus.document(7, 1));
        assert_eq!(
            (&first.uri, &first.publication_uri, first.id),
            (&edited.uri, &edited.publication_uri, edited.id)
        );
        assert_ne!(first.content, edited.content);
    }

    #[test]
    fn addresses_are_unique_and_words_are_plain() {
        let corpus = Corpus::new(1, 6_000, 300);
        let uris: std::collections::HashSet<_> =
            (0..corpus.len()).map(|number| corpus.uri(number)).collect();
        assert_eq!(uris.len(), 6_000);
        assert!((0..WORDS).all(|rank| {
            corpus
                .word(rank)
                .bytes()
                .all(|byte| byte.is_ascii_lowercase())
        }));
    }

    #[test]
    fn words_are_as_common_as_their_rank_says() {
        let corpus = Corpus::new(1, 400, 20);
        let count = |word: &str| {
            (0..400)
                .filter(|number| {
                    let content = corpus.document(*number, 0).content.to_lowercase();
                    content.split([' ', '.']).any(|other| other == word)
                })
                .count()
        };
        // Of 6,000 documents 100 to 400 are 7 to 27 of 400; at the ends of the range there is scatter.
        let narrow = count(corpus.word(1_500));
        assert!((4..60).contains(&narrow), "{narrow} of 400");
        assert!(count(corpus.word(0)) > 390);
    }

    #[test]
    fn a_broad_word_meets_many_publications_and_embeddings_lie_around_topics() {
        let corpus = Corpus::new(1, 100, 300);
        for rank in BROAD {
            let word = corpus.word(rank);
            let meets = corpus.publications().iter().filter(|publication| {
                let text = format!("{} {}", publication.name, publication.description);
                text.to_lowercase().split(' ').any(|other| other == word)
            });
            let meets = meets.count();
            assert!((10..60).contains(&meets), "{word}: {meets}");
        }
        let document = corpus.document(0, 0);
        let mut near: Vec<f32> = corpus
            .topics()
            .iter()
            .map(|topic| {
                topic
                    .iter()
                    .zip(&document.embedding)
                    .map(|(a, b)| a * b)
                    .sum()
            })
            .collect();
        near.sort_by(f32::total_cmp);
        assert!(near[TOPICS - 1] > 0.7 && near[TOPICS - 2] < 0.3, "{near:?}");
    }
}
