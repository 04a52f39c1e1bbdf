//! Who starts, in which order and how: the slots that a plan asks for.

use std::io;
use std::time::Duration;

use super::Setup;
use super::command::{Launch, texts_with_ports};
use super::logs::file_name;
use super::shared::Shared;
use super::slot::Slot;
use super::start::Order;
use crate::file::{Experiment, LoadPer, Restart, Stop};
use crate::happening::{Happening, Role, Who};
use crate::order::{interleaved, replica_seed};
use crate::placeholder::{PlaceholderError, Values, ports_wanted};

/// A load program holds no state worth a long farewell.
const LOAD_GRACE: Duration = Duration::from_secs(5);

pub(super) fn subject_slots(
    plan: &Experiment,
    backing: Option<&Slot>,
    shared: &mut Shared,
) -> io::Result<Vec<Slot>> {
    let mut slots = Vec::new();
    for (index, replica) in interleaved(plan.arms.len(), plan.replicas, plan.seed) {
        let arm = &plan.arms[index];
        let mut slot = Slot::new(
            &arm.name,
            Some(index),
            replica,
            Role::Subject,
            plan.subject.restart,
        );
        slot.seed = replica_seed(plan.seed, replica);
        slot.backing = backing.map(Slot::as_backing);
        let name = format!("{}-{replica}", file_name(&arm.name));
        slot.data = Some(shared.setup.folder.join("data").join(name));
        for _ in 0..ports_wanted(texts_with_ports(plan, arm)) {
            slot.ports.push(shared.ports.take()?);
        }
        slots.push(slot);
    }
    Ok(slots)
}

pub(super) fn load_slots(
    plan: &Experiment,
    backing: Option<&Slot>,
    subjects: &[Slot],
) -> Vec<Slot> {
    match plan.load.as_ref().map(|load| load.per) {
        None => Vec::new(),
        Some(LoadPer::Run) => {
            let mut slot = Slot::new(Who::EVERY_ARM, None, 0, Role::Load, Restart::OnFailure);
            slot.seed = plan.seed;
            slot.backing = backing.map(Slot::as_backing);
            vec![slot]
        }
        Some(LoadPer::Process) => {
            let load_of = |subject: &Slot| {
                let (index, replica) = (subject.arm_index, subject.replica);
                let mut slot =
                    Slot::new(&subject.arm, index, replica, Role::Load, Restart::OnFailure);
                slot.seed = subject.seed;
                slot.backing.clone_from(&subject.backing);
                slot
            };
            subjects.iter().map(load_of).collect()
        }
    }
}

pub(super) fn subject_order<'a>(
    plan: &'a Experiment,
    setup: &Setup,
    slot: &Slot,
    values: &Values,
) -> Result<Order<'a>, PlaceholderError> {
    let arm = &plan.arms[slot.arm_index.expect("a replica belongs to an arm")];
    let preload = setup.preloads.get(&arm.name).cloned().unwrap_or_default();
    Ok(Order {
        launch: Launch::of_subject(plan, arm, &preload, values)?,
        ready: plan.subject.ready.as_ref(),
        ready_timeout: plan.subject.ready_timeout,
        stop: plan.subject.stop.clone(),
        memory_limit: plan.subject.memory_limit,
        metrics: plan.subject.metrics.as_deref(),
        library: preload.library,
        dies_with_us: !plan.subject.keep,
    })
}

pub(super) fn start_subject(
    slot: &mut Slot,
    plan: &Experiment,
    now: Duration,
    shared: &mut Shared,
    out: &mut Vec<Happening>,
) {
    let values = slot.values(&shared.setup);
    let order = subject_order(plan, &shared.setup, slot, &values);
    slot.start(order, &values, now, shared, out);
}

pub(super) fn start_load(
    slot: &mut Slot,
    plan: &Experiment,
    subject: Option<Values>,
    now: Duration,
    shared: &mut Shared,
    out: &mut Vec<Happening>,
) {
    let load = plan
        .load
        .as_ref()
        .expect("a load slot comes from a load plan");
    let own = slot.values(&shared.setup);
    let values = subject
        .filter(|_| load.per == LoadPer::Process)
        .unwrap_or(own);
    let order = Launch::of_load(plan, load, &values).map(|launch| Order {
        launch,
        ready: None,
        ready_timeout: Duration::ZERO,
        stop: Stop {
            signal: libc::SIGTERM,
            grace: LOAD_GRACE,
        },
        memory_limit: None,
        metrics: None,
        library: None,
        dies_with_us: true,
    });
    slot.start(order, &values, now, shared, out);
}
