//! Records as people write them: posts, likes, follows, now and then a long article.

use ipld_core::cid::Cid;
use ipld_core::ipld;
use ipld_core::ipld::Ipld;

use crate::identifiers::{date_time, did, random_blob, random_cid};

pub const POST: &str = "app.bsky.feed.post";
const LIKE: &str = "app.bsky.feed.like";
const REPOST: &str = "app.bsky.feed.repost";
const FOLLOW: &str = "app.bsky.graph.follow";
const BLOCK: &str = "app.bsky.graph.block";
const ARTICLE: &str = "com.whtwnd.blog.entry";

pub const COLLECTIONS: [&str; 6] = [POST, LIKE, REPOST, FOLLOW, BLOCK, ARTICLE];

/// Longest text of a post, in bytes; what is larger is an article.
const POST_TEXT_MAX: usize = 3000;

/// A record of its collection.
pub struct Record {
    pub collection: &'static str,
    pub value: Ipld,
    /// A picture that the record refers to.
    pub blob: Option<Cid>,
}

/// A record of about `size` bytes, as far as its kind can be that small or large.
pub fn record(random: &mut fastrand::Rng, number: u64, size: usize) -> Record {
    if size > POST_TEXT_MAX + 200 {
        return article(random, number, size);
    }
    match random.u8(0..100) {
        0..40 if size < 300 => subject(random, number, LIKE),
        40..50 if size < 300 => subject(random, number, REPOST),
        50..60 if size < 300 => person(random, number, FOLLOW),
        60..63 if size < 300 => person(random, number, BLOCK),
        63..68 => picture(random, number, size),
        _ => post(random, number, size),
    }
}

fn plain(collection: &'static str, value: Ipld) -> Record {
    Record {
        collection,
        value,
        blob: None,
    }
}

fn article(random: &mut fastrand::Rng, number: u64, size: usize) -> Record {
    let value = ipld!({
        "$type": ARTICLE,
        "title": text(random, 40),
        "content": text(random, size - 150),
        "createdAt": date_time(number),
        "visibility": "public",
    });
    plain(ARTICLE, value)
}

fn post(random: &mut fastrand::Rng, number: u64, size: usize) -> Record {
    let value = ipld!({
        "$type": POST,
        "text": text(random, size.saturating_sub(110).max(8)),
        "langs": ["en"],
        "createdAt": date_time(number),
    });
    plain(POST, value)
}

fn picture(random: &mut fastrand::Rng, number: u64, size: usize) -> Record {
    let blob = random_blob(random);
    let value = ipld!({
        "$type": POST,
        "text": text(random, size.saturating_sub(400).max(8)),
        "embed": {
            "$type": "app.bsky.embed.images",
            "images": [{
                "alt": "",
                "image": {
                    "$type": "blob",
                    "ref": Ipld::Link(blob),
                    "size": 231_007,
                    "mimeType": "image/jpeg",
                },
            }],
        },
        "createdAt": date_time(number),
    });
    Record {
        collection: POST,
        value,
        blob: Some(blob),
    }
}

fn subject(random: &mut fastrand::Rng, number: u64, collection: &'static str) -> Record {
    let value = ipld!({
        "$type": collection,
        "subject": {
            "cid": random_cid(random).to_string(),
            "uri": format!("at://{}/{POST}/3mbd7c2k6e22y", did(random)),
        },
        "createdAt": date_time(number),
    });
    plain(collection, value)
}

fn person(random: &mut fastrand::Rng, number: u64, collection: &'static str) -> Record {
    let value = ipld!({
        "$type": collection,
        "subject": did(random),
        "createdAt": date_time(number),
    });
    plain(collection, value)
}

/// `size` letters and spaces.
fn text(random: &mut fastrand::Rng, size: usize) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz      ";
    let mut text = String::with_capacity(size + 12);
    while text.len() < size {
        let bits = random.u64(..);
        let letter = |place: u32| char::from(LETTERS[(bits >> (5 * place)) as usize & 31]);
        text.extend((0..12).map(letter));
    }
    text.truncate(size);
    text
}
