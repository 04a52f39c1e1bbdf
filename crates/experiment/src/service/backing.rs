//! The backing service: one for the whole run, there before the first replica starts and gone after the last.
//! Without it there is no subject: when it ends, or never gets ready, so does everything else.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::Service;
use super::command::{Launch, texts_of_backing};
use super::shared::Shared;
use super::slot::{BACKING, Slot};
use super::start::Order;
use crate::file::{BackingPlan, Experiment, Restart};
use crate::happening::{Happening, Role, Who};
use crate::placeholder::{PlaceholderError, Values, ports_wanted};

impl Slot {
    /// What `{backing}` and `{backing_port}` stand for.
    pub(super) fn as_backing(&self) -> (PathBuf, Option<u16>) {
        (
            self.data.clone().unwrap_or_default(),
            self.ports.first().copied(),
        )
    }
}

/// # Errors
/// When there are not enough free ports.
pub(super) fn backing_slot(plan: &Experiment, shared: &mut Shared) -> io::Result<Option<Slot>> {
    let Some(backing) = &plan.backing else {
        return Ok(None);
    };
    let mut slot = Slot::new(Who::EVERY_ARM, None, 0, Role::Backing, Restart::Never);
    slot.seed = plan.seed;
    slot.data = Some(shared.setup.folder.join("data").join(BACKING));
    for _ in 0..ports_wanted(texts_of_backing(backing)) {
        slot.ports.push(shared.ports.take()?);
    }
    Ok(Some(slot))
}

pub(super) fn backing_order<'a>(
    plan: &'a Experiment,
    backing: &'a BackingPlan,
    values: &Values,
) -> Result<Order<'a>, PlaceholderError> {
    Ok(Order {
        launch: Launch::of_backing(plan, backing, values)?,
        ready: backing.ready.as_ref(),
        ready_timeout: backing.ready_timeout,
        stop: backing.stop.clone(),
        memory_limit: None,
        metrics: None,
        library: None,
        dies_with_us: !plan.subject.keep,
    })
}

impl Service {
    /// Whether replicas may start.
    pub(super) fn is_backed(&self) -> bool {
        self.backing.as_ref().is_none_or(Slot::is_up)
    }

    pub(super) fn poll_backing(&mut self, now: Duration, out: &mut Vec<Happening>) {
        let others_are_over = self.others().all(Slot::is_over);
        let (Some(slot), Some(backing)) = (&mut self.backing, &self.plan.backing) else {
            return;
        };
        if others_are_over {
            slot.dismiss("the run is over");
            slot.begin_stop(now);
        }
        if slot.is_due(now) {
            let values = slot.values(&self.shared.setup);
            let order = backing_order(&self.plan, backing, &values);
            slot.start(order, &values, now, &mut self.shared, out);
        }
        slot.poll(now, &mut None, out);
        if slot.is_over() && !others_are_over {
            let slots = self.subjects.iter_mut().chain(&mut self.loads);
            slots.for_each(|slot| slot.dismiss("the backing service is gone"));
        }
    }

    /// All but the backing service.
    fn others(&self) -> impl Iterator<Item = &Slot> {
        self.subjects.iter().chain(&self.loads)
    }

    /// Where the others find it, after it was found again under the ports that it had.
    pub(super) fn tell_of_backing(&mut self) {
        let Some(known) = self.backing.as_ref().map(Slot::as_backing) else {
            return;
        };
        for slot in self.subjects.iter_mut().chain(&mut self.loads) {
            slot.backing = Some(known.clone());
        }
    }
}
