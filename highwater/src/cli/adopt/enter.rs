//! What a rollout leaves in the ledger.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::cli::out::say;
use record::ledger::{Attempt, Ledger, Status};
use rollout::plan::Plan;

/// Writes a dated line into the entry of the rollout's experiment; `reverted` sets its status. A ledger that cannot
/// be written is said, and costs nothing else.
pub fn enter(plan: &Plan, words: &str, reverted: bool) {
    let Some(place) = &plan.ledger else {
        return;
    };
    let ledger = Ledger::at(&place.folder);
    let attempt = Attempt {
        date: jiff::Zoned::now().date().to_string(),
        run: String::new(),
        words: words.to_owned(),
    };
    let revert = format!("highwater revert {} --yes", plan.id);
    let written = ledger.update(&place.entry, |entry| {
        entry.attempts.push(attempt);
        if reverted {
            entry.status = Status::Reverted;
            entry.revert.retain(|way| *way != revert);
        } else if !entry.revert.contains(&revert) {
            entry.revert.push(revert);
        }
    });
    if let Err(error) = written {
        say!("highwater: no line in the ledger: {error}");
    }
    give_back(&place.folder, &place.entry);
}

/// Root writes into a ledger that may be another user's: what was written stays that user's.
fn give_back(folder: &Path, entry: &str) {
    let Ok(owner) = std::fs::metadata(folder) else {
        return;
    };
    for name in [format!("{entry}.toml"), ".lock".to_owned()] {
        let path = folder.join(name);
        let differs = std::fs::metadata(&path).is_ok_and(|data| data.uid() != owner.uid());
        if differs {
            let _ = std::os::unix::fs::lchown(&path, Some(owner.uid()), Some(owner.gid()));
        }
    }
}
