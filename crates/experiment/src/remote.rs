//! Processes of other hosts: only watched, through a store that scrapes them. Which of them run, since when and on
//! which allocator the collector reads from the store; this side only says which arms there are.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Subject;
use super::happening::{Happening, Role, What, Who};
use super::placeholder::Values;
use crate::file::Experiment;

/// The remote subject: its arms, until they are dismissed.
#[derive(Debug)]
pub struct RemoteArms {
    arms: BTreeSet<String>,
    told: bool,
}

impl RemoteArms {
    pub fn new(plan: &Experiment) -> RemoteArms {
        RemoteArms {
            arms: plan.arms.iter().map(|arm| arm.name.clone()).collect(),
            told: false,
        }
    }
}

impl Subject for RemoteArms {
    fn poll(&mut self, now: Duration) -> Vec<Happening> {
        if std::mem::replace(&mut self.told, true) {
            return Vec::new();
        }
        let ready = |arm: &String| Happening {
            at: now,
            who: Who {
                arm: arm.clone(),
                replica: 0,
                incarnation: 0,
                role: Role::Subject,
            },
            what: What::Ready,
            words: format!("the processes of arm {arm} are read from the store"),
        };
        self.arms.iter().map(ready).collect()
    }

    fn stop_arm(&mut self, arm: &str, _why: &str) {
        self.arms.remove(arm);
    }

    fn stop_all(&mut self, _why: &str) {
        self.arms.clear();
    }

    fn is_over(&self) -> bool {
        self.arms.is_empty()
    }

    fn values(&self, _arm: &str, _replica: u32) -> Option<Values> {
        None
    }
}
