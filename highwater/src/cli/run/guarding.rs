//! What the loop does when a guard is broken: the arm is stopped at once and taken back, the others go on.

use std::collections::BTreeMap;
use std::time::Duration;

use super::conduct::{Conduct, Guarding, State};
use super::revert::{Reach, Undone};
use experiment::file::SubjectKind;
use experiment::placeholder::Values;
use observe::snapshot::{EventKind, ProcessId, Role, Snapshot, Target, TimeNs};
use record::run::Process;

use experiment::{Happening, Role as SubjectRole, What, Who};
use verdict::check::CheckOutcome;

impl Conduct<'_> {
    /// A crash loop is noticed at the restart itself: its process may be down at every snapshot.
    pub(super) fn guard_restarts(
        &mut self,
        state: &mut State,
        guards: &mut Guarding,
        happened: &[Happening],
        now: TimeNs,
    ) -> anyhow::Result<()> {
        for one in happened {
            if let What::Started(started) | What::Resumed(started) = &one.what
                && let (Some(name), Some(id)) = (&started.name, self.journal.id_of(&one.who))
            {
                guards.limits.name(id, name);
            }
        }
        let restarts = happened.iter().filter(|one| one.what == What::Restarted);
        for who in restarts
            .map(|one| &one.who)
            .filter(|who| who.role == SubjectRole::Subject)
        {
            let first = state.first.get(&(who.arm.clone(), who.replica));
            let age = age(*first.unwrap_or(&now), now);
            let broken = guards.limits.restarted(&who.arm, who.replica, now, age);
            self.abort_all(state, broken)?;
        }
        Ok(())
    }

    /// Of processes on other hosts a restart is a row with a later incarnation, which the collector writes.
    fn guard_remote_restarts(
        &mut self,
        state: &mut State,
        guards: &mut Guarding,
        rows: &[Process],
    ) -> anyhow::Result<()> {
        for row in rows.iter().filter(|row| row.role == Role::Subject) {
            let is_same = |p: &&Process| (&p.arm, p.replica) == (&row.arm, row.replica);
            let first = rows.iter().filter(is_same).map(|p| p.started).min();
            if row.incarnation == 0 || !guards.counted.insert(row.id) {
                continue;
            }
            let age = age(first.unwrap_or(row.started), row.started);
            let limits = &mut guards.limits;
            let broken = limits.restarted(&row.arm, row.replica, row.started, age);
            self.abort_all(state, broken)?;
        }
        Ok(())
    }

    fn abort_all(&mut self, state: &mut State, broken: Vec<CheckOutcome>) -> anyhow::Result<()> {
        for broken in broken {
            let why = format!("guard {}: {}", broken.check, broken.observed);
            self.abort(state, &broken.arm, &why)?;
        }
        Ok(())
    }

    pub(super) fn guard(
        &mut self,
        state: &mut State,
        guards: &mut Guarding,
        snapshot: &Snapshot,
    ) -> anyhow::Result<()> {
        let targets = self.reader.targets()?;
        let started: BTreeMap<ProcessId, TimeNs> = match self.experiment.subject.remote {
            // Of processes on other hosts the collector writes the rows.
            Some(_) => {
                let rows = self.reader.processes()?;
                self.guard_remote_restarts(state, guards, &rows)?;
                rows.iter().map(|row| (row.id, row.started)).collect()
            }
            None => state.started.clone(),
        };
        let uptime = |id: ProcessId| {
            age(
                started.get(&id).copied().unwrap_or(snapshot.time),
                snapshot.time,
            )
        };
        let broken = guards.limits.evaluate(snapshot, &targets, &uptime);
        self.abort_all(state, broken)
    }

    pub(super) fn abort(&mut self, state: &mut State, arm: &str, why: &str) -> anyhow::Result<()> {
        if state.aborted.contains(arm) {
            return Ok(());
        }
        let reach = Reach::of(self.experiment);
        let after = reach.words(self.experiment);
        self.progress
            .say(&format!("highwater: arm {arm} is aborted: {why}{after}"));
        self.remember_remote()?;
        let who = first_of(arm);
        let words = format!("arm {arm} aborted: {why}{after}");
        self.journal
            .say(self.clock.now(), Some(who), EventKind::Aborted, words)?;
        if reach == Reach::Manage {
            let processes = self.values_of(arm)?;
            state.reverts.begin(self.experiment, arm, &processes);
        }
        self.subject.stop_arm(arm, why);
        state.aborted.insert(arm.to_owned());
        Ok(())
    }

    /// Rows of processes on other hosts are the collector's: without them an event of an arm would belong to nobody.
    fn remember_remote(&mut self) -> anyhow::Result<()> {
        if self.experiment.subject.kind != SubjectKind::Remote {
            return Ok(());
        }
        let rows = self.reader.processes()?.into_iter();
        for row in rows.filter(|row| row.role == Role::Subject) {
            let who = Who {
                arm: row.arm,
                replica: row.replica,
                incarnation: row.incarnation,
                role: SubjectRole::Subject,
            };
            self.journal.remember(who, row.id);
        }
        Ok(())
    }

    /// What the placeholders stand for in each process of an arm that is watched now.
    fn values_of(&self, arm: &str) -> anyhow::Result<Vec<Values>> {
        let targets = self.reader.targets()?;
        let own = |target: &&Target| target.role == Role::Subject && target.arm == arm;
        let values = |target: &Target| self.subject.values(&target.arm, target.replica);
        Ok(targets.iter().filter(own).filter_map(values).collect())
    }

    pub(super) fn take_reverts(&mut self, undone: Vec<Undone>) -> anyhow::Result<()> {
        for Undone { arm, kind, words } in undone {
            self.progress.say(&format!("highwater: {words}"));
            let who = first_of(&arm);
            self.journal.say(self.clock.now(), Some(who), kind, words)?;
        }
        Ok(())
    }
}

fn age(from: TimeNs, to: TimeNs) -> Duration {
    Duration::from_nanos((to.0 - from.0).max(0) as u64)
}

/// Stands for the whole arm.
fn first_of(arm: &str) -> Who {
    Who {
        arm: arm.into(),
        replica: 0,
        incarnation: 0,
        role: SubjectRole::Subject,
    }
}
