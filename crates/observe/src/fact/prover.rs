//! When a process is proved anew, and what of it is written down.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use super::arm::not_the_arm;
use super::library::Libraries;
use super::proof::{Answer, Proof, ProofReader, Unproved};
use crate::proc::open::{Folder, Lost};
use crate::proc::pace::Pace;
use crate::proc::process::{Loss, Vital};
use crate::proc::stat::Image;
use crate::snapshot::{EventKind, Target};
use crate::snapshot_writer::SnapshotWriter;

/// Snapshots that wait for a dynamic linker at work, before the maps must do.
const EARLY_SNAPSHOTS_MAX: u32 = 10;
/// Other exporters of malloc that are named in a fact.
const OTHERS_MAX: usize = 8;

/// Keeps the proof of one process up to date.
///
/// The full proof is read at the first snapshot, and again when `exec` drew new addresses (seen in
/// stat at every snapshot, for nothing) or when the mapped code files changed (maps, read at a slower
/// rate, as its cost allows).
#[derive(Debug)]
pub struct Prover {
    image: Option<Image>,
    digest: String,
    early_snapshots: u32,
    maps_pace: Pace,
    /// Facts as last written.
    told: HashMap<&'static str, String>,
    mismatch: Option<String>,
}

/// What proving needs besides the process itself.
pub struct Means<'a> {
    pub folder: &'a Folder,
    /// /proc/PID.
    pub path: &'a Path,
    pub libraries: &'a mut Libraries,
    /// Part of one core that rereading this process's maps may take.
    pub share: f64,
}

impl Prover {
    pub fn new(seed: i64) -> Prover {
        Prover {
            image: None,
            digest: String::new(),
            early_snapshots: 0,
            maps_pace: Pace::new(seed.wrapping_mul(7)),
            told: HashMap::new(),
            mismatch: None,
        }
    }

    pub fn sample(
        &mut self,
        target: &Target,
        vital: &Vital,
        means: Means<'_>,
        writer: &mut SnapshotWriter<'_>,
        losses: &mut Vec<Loss>,
    ) {
        let same_image = self.image == Some(vital.stat.image);
        if same_image && !self.maps_pace.is_due(writer.time()) {
            return;
        }
        if !same_image {
            self.early_snapshots = 0;
        }
        let begin = Instant::now();
        let share = means.share;
        let mut reader = ProofReader {
            folder: means.folder,
            path: means.path,
            libraries: means.libraries,
        };
        let renewed = self.renew(same_image, &mut reader);
        self.image = Some(vital.stat.image);
        self.maps_pace.book(writer.time(), begin.elapsed(), share);
        match renewed {
            Ok(None) => {}
            Ok(Some(proof)) => {
                self.digest = proof.digest.clone();
                let wrong = not_the_arm(
                    &target.expected_allocator,
                    &proof,
                    target.pid,
                    reader.libraries,
                );
                self.write(&proof, writer);
                self.judge(wrong, writer);
            }
            Err(Unproved::Early) => {
                self.early_snapshots += 1;
                self.maps_pace.hurry();
            }
            Err(Unproved::Lost(Lost::Gone)) => {}
            Err(Unproved::Lost(why)) => losses.push(lost(why.to_string())),
            Err(Unproved::Odd(why)) => losses.push(lost(why)),
        }
    }

    /// `None`: the maps are as they were.
    fn renew(
        &self,
        same_image: bool,
        reader: &mut ProofReader<'_>,
    ) -> Result<Option<Proof>, Unproved> {
        let proved = !self.digest.is_empty();
        if same_image && proved && reader.read_maps()?.digest() == self.digest {
            return Ok(None);
        }
        reader
            .prove(self.early_snapshots < EARLY_SNAPSHOTS_MAX)
            .map(Some)
    }

    /// Says each change from right to wrong, and from one wrong to another, once.
    fn judge(&mut self, wrong: Option<String>, writer: &mut SnapshotWriter<'_>) {
        if let Some(words) = &wrong {
            if self.mismatch != wrong {
                writer.event(EventKind::NotTheArm, words.clone());
            }
        } else if self.mismatch.is_some() {
            writer.event(
                EventKind::Note,
                "it runs what its arm says again".to_owned(),
            );
        }
        self.mismatch = wrong;
    }

    fn write(&mut self, proof: &Proof, writer: &mut SnapshotWriter<'_>) {
        let mut tell = |key: &'static str, value: Option<String>| {
            let value = value.unwrap_or_default();
            if self.told.get(key).is_none_or(|told| *told != value) {
                writer.fact(key, value.clone());
                self.told.insert(key, value);
            }
        };
        tell("exe", Some(proof.exe.clone()));
        tell("maps.digest", Some(proof.digest.clone()));
        tell("malloc.proof", Some(proof.method.clone()));
        tell("malloc.bound", proof.bound.clone());
        let others: Vec<&str> = proof
            .others
            .iter()
            .map(String::as_str)
            .take(OTHERS_MAX)
            .collect();
        tell("malloc.others", Some(others.join(", ")));
        tell("malloc.library", Some(who_answers(&proof.answer)));
        let (path, address, known) = match &proof.answer {
            Answer::Library {
                path,
                address,
                identity,
                ..
            } => (Some(path.clone()), *address, identity.as_deref()),
            Answer::Static { .. } | Answer::Nobody { .. } => (None, None, None),
        };
        tell("malloc.address", address.map(|at| format!("{at:#x}")));
        tell("allocator.path", path);
        tell("allocator.build_id", known.and_then(|k| k.build_id.clone()));
        tell("allocator.sha256", known.and_then(|k| k.sha256.clone()));
        let family = known.and_then(|k| k.family).map(str::to_owned);
        tell("allocator.family", family);
        tell("allocator.version", known.and_then(|k| k.version.clone()));
    }
}

fn who_answers(answer: &Answer) -> String {
    match answer {
        Answer::Library {
            path,
            is_program: true,
            ..
        } => format!("{path} (the program)"),
        Answer::Library { path, .. } => path.clone(),
        Answer::Static { inside } => format!("the static program; inside: {inside}"),
        Answer::Nobody { inside } => format!("nothing that is loaded; inside: {inside}"),
    }
}

fn lost(why: String) -> Loss {
    Loss {
        what: "maps, exe and memory (which allocator it really runs)",
        why,
    }
}
