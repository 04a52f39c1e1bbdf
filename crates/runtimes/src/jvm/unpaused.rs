//! What is read of a JVM that may not be stopped: its memory and its counters, and nothing else of it is touched.

use std::time::Instant;

use super::Jvm;
use super::counters::Counters;
use super::outside::{Now, Outside};
use super::threads::grouped;
use crate::{Error, HeapSize, Holder, Limits, Snapshot, TypeCount};

const NO_COUNTERS: &str = "the JVM publishes no counters (-XX:-UsePerfData or -XX:+PerfDisableSharedMem): \
    its heap can only be read with --allow-pause";

const NO_MAKERS: &str = "which calls made the objects: JDK Flight Recorder samples them, and stops the program at its \
    end; allow it with --allow-pause";

impl Jvm {
    /// Without any pause.
    pub(super) fn read_only(
        &mut self,
        counters: Option<&Counters>,
        limits: &Limits,
    ) -> Result<Snapshot, Error> {
        match self.outside_now(limits) {
            Ok((types, threads)) => {
                let heap = counters.map(Counters::heap).unwrap_or_default();
                let mut snapshot = Snapshot {
                    heap: Some(of_live(heap, &types)),
                    types,
                    missing: vec![NO_MAKERS.to_owned()],
                    ..Snapshot::default()
                };
                self.add_groups(grouped(threads.into_iter()), &mut snapshot);
                Ok(snapshot)
            }
            Err(why) => {
                let counters = counters.ok_or_else(|| Error::Refused(NO_COUNTERS.into()))?;
                let about = self.first_estimate(Some(counters))?;
                let missing = format!(
                    "types and threads: the JVM lists them only while the program is stopped, for about {about:?}; \
                     allow it with --allow-pause"
                );
                Ok(Snapshot {
                    heap: Some(counters.heap()),
                    missing: vec![format!("types, from outside: {why}"), missing],
                    ..Snapshot::default()
                })
            }
        }
    }

    /// Objects that are held now, by type, and the threads; an error says in words why they are not known.
    pub(super) fn outside_now(&mut self, limits: &Limits) -> Result<Now, String> {
        let until = Instant::now() + limits.time;
        self.outside()?.snapshot(limits.bytes, until)
    }

    pub(super) fn holders_outside(
        &mut self,
        types: &[String],
        limits: &Limits,
    ) -> Result<Vec<Holder>, String> {
        let until = Instant::now() + limits.time;
        self.outside()?.holders(types, limits.bytes, until)
    }

    fn outside(&mut self) -> Result<&mut Outside, String> {
        let mapped = self.target.mapped().map_err(|why| why.to_string())?;
        let same = self.target.check_same_program(&mapped);
        same.map_err(|why| why.to_string())?;
        if self.outside.is_none() {
            self.outside = Some(self.open_outside());
        }
        match &mut self.outside {
            Some(Ok(outside)) => Ok(outside),
            Some(Err(why)) => Err(why.clone()),
            None => Err("it was not opened".to_owned()),
        }
    }

    fn open_outside(&self) -> Result<Outside, String> {
        let memory = self.target.memory().map_err(|why| why.to_string())?;
        let libjvm = self.mapped.libjvm.ok_or("libjvm.so is not mapped")?;
        Outside::open(self.target.pid, memory, libjvm)
    }
}

/// Sizes of the heap where its objects are known: what nothing holds is not in use.
pub(super) fn of_live(heap: HeapSize, types: &[TypeCount]) -> HeapSize {
    let bytes = types.iter().map(|of| of.bytes);
    HeapSize {
        used_bytes: bytes.fold(0, u64::saturating_add),
        is_collected: true,
        ..heap
    }
}
