//! Whether the process that was killed was the largest, and if not, what spared the larger ones.

use oom::kill::{Kill, Task};

/// The place of the victim among the tasks that the kernel listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// 1: the largest by resident memory and swap.
    pub rank: u64,
    pub of: u64,
    /// The largest of those that were larger.
    pub larger: Option<Task>,
    /// Its `oom_score_adj` is lower than that of the victim: that spared it.
    pub is_spared: bool,
}

/// `None`: the table does not have the victim, or there is none.
pub fn of(kill: &Kill) -> Option<Standing> {
    let victim = kill.victim()?;
    let own = kill
        .tasks
        .largest
        .iter()
        .find(|task| task.pid == victim.pid)?;
    let size = |task: &Task| task.resident_bytes.saturating_add(task.swap_bytes);
    let larger: Vec<&Task> = kill
        .tasks
        .largest
        .iter()
        .filter(|task| size(task) > size(own))
        .collect();
    let largest = larger.iter().max_by_key(|task| size(task)).copied();
    Some(Standing {
        rank: larger.len() as u64 + 1,
        of: kill.tasks.count,
        is_spared: largest.is_some_and(|task| task.oom_score_adj < own.oom_score_adj),
        larger: largest.cloned(),
    })
}
