//! What is read of a JVM that may not be stopped: its memory and its counters, and nothing else of it is touched.

use std::time::Instant;

use super::Jvm;
use super::counters::Counters;
use super::outside::Outside;
use crate::{Error, HeapSize, Holder, Limits, Snapshot, TypeCount};

const NO_COUNTERS: &str = "the JVM publishes no counters (-XX:-UsePerfData or -XX:+PerfDisableSharedMem): \
    its heap can only be read with --allow-pause";

impl Jvm {
    /// Without any pause.
    pub(super) fn read_only(
        &mut self,
        counters: Option<&Counters>,
        limits: &Limits,
    ) -> Result<Snapshot, Error> {
        match self.types_outside(limits) {
            Ok(types) => {
                let heap = counters.map(Counters::heap).unwrap_or_default();
                Ok(Snapshot {
                    heap: Some(of_live(heap, &types)),
                    types,
                    missing: vec![self.would_need("threads and what made the objects", counters)?],
                    ..Snapshot::default()
                })
            }
            Err(why) => {
                let counters = counters.ok_or_else(|| Error::Refused(NO_COUNTERS.into()))?;
                let missing = self.would_need("types and threads", Some(counters))?;
                Ok(Snapshot {
                    heap: Some(counters.heap()),
                    missing: vec![format!("types, from outside: {why}"), missing],
                    ..Snapshot::default()
                })
            }
        }
    }

    fn would_need(&self, what: &str, counters: Option<&Counters>) -> Result<String, Error> {
        let about = self.first_estimate(counters)?;
        Ok(format!(
            "{what}: the JVM lists them only while the program is stopped, for about {about:?}; allow it with \
             --allow-pause"
        ))
    }

    /// Objects that are held now, by type; an error says in words why they are not known.
    pub(super) fn types_outside(&mut self, limits: &Limits) -> Result<Vec<TypeCount>, String> {
        let until = Instant::now() + limits.time;
        self.outside()?.types(limits.bytes, until)
    }

    pub(super) fn holders_outside(
        &mut self,
        types: &[String],
        limits: &Limits,
    ) -> Result<Vec<Holder>, String> {
        let until = Instant::now() + limits.time;
        self.outside()?.holders(types, limits.bytes, until)
    }

    fn outside(&mut self) -> Result<&Outside, String> {
        let mapped = self.target.mapped().map_err(|why| why.to_string())?;
        let same = self.target.check_same_program(&mapped);
        same.map_err(|why| why.to_string())?;
        if self.outside.is_none() {
            self.outside = Some(self.open_outside());
        }
        match &self.outside {
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
