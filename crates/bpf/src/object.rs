//! Compiled programs (`programs/*.bpf.c`, compiled by `make bpf`): from an object file to programs in the kernel.
//!
//! [`Object::parse`], then the maps ([`crate::map`]), the constants ([`Object::set`]) and the views ([`Object::view`]),
//! then [`Object::load`]. One object may be cloned to load a program several times, with other constants and views but
//! the same maps.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use aya_obj::Map;
use aya_obj::btf::Btf;

use crate::btf::{self, Structure, View};
use crate::kernel::bpf;
use crate::load::load;

const MAP_CREATE: u32 = 0;

/// Of a map: its type by the kernel's number, and the sizes of a key and a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub kind: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
}

impl Shape {
    pub(crate) fn of<K, V>(kind: u32) -> Shape {
        let (key_bytes, value_bytes) = (size_of::<K>() as u32, size_of::<V>() as u32);
        Shape {
            kind,
            key_bytes,
            value_bytes,
        }
    }
}

#[repr(C)]
struct Create {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    rest: [u32; 13],
}

fn create(shape: Shape, entries: u32) -> io::Result<OwnedFd> {
    let attr = Create {
        map_type: shape.kind,
        key_size: shape.key_bytes,
        value_size: shape.value_bytes,
        max_entries: entries,
        map_flags: 0,
        rest: [0; 13],
    };
    bpf(MAP_CREATE, &attr)
}

/// An object file needs the alignment of its headers.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

macro_rules! object {
    ($file:literal) => {{
        static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!("../objects/", $file)));
        &OBJECT.0
    }};
}

/// programs/sched.bpf.c
pub fn sched() -> &'static [u8] {
    object!("sched.bpf.o")
}

/// programs/heap.bpf.c
pub fn heap() -> &'static [u8] {
    object!("heap.bpf.o")
}

/// programs/hits.bpf.c
pub fn hits() -> &'static [u8] {
    object!("hits.bpf.o")
}

/// programs/requests.bpf.c
pub fn requests() -> &'static [u8] {
    object!("requests.bpf.o")
}

/// An object file on its way into the kernel.
#[derive(Clone)]
pub struct Object {
    parsed: aya_obj::Object,
    views: Vec<View>,
    constants: Vec<(&'static str, u32)>,
    maps: BTreeMap<String, Arc<OwnedFd>>,
}

impl Object {
    /// # Errors
    /// It is no object file of eBPF programs.
    pub fn parse(file: &[u8]) -> io::Result<Object> {
        Ok(Object {
            parsed: aya_obj::Object::parse(file).map_err(io::Error::other)?,
            views: Vec::new(),
            constants: Vec::new(),
            maps: BTreeMap::new(),
        })
    }

    /// Sets a `CONSTANT`. A program that uses one which is not set is refused by the kernel.
    pub fn set(&mut self, name: &'static str, value: u32) {
        self.constants.retain(|(known, _)| *known != name);
        self.constants.push((name, value));
    }

    /// Says where the fields of a `VIEW` lie.
    pub fn view(&mut self, view: View) {
        self.views.retain(|known| known.name != view.name);
        self.views.push(view);
    }

    /// Makes one of the object's maps; the reader and every program that is loaded from now on share it.
    ///
    /// # Errors
    /// The object has none of that name and shape, or the kernel refuses it.
    pub(crate) fn create(
        &mut self,
        name: &str,
        shape: Shape,
        entries: Option<u32>,
    ) -> io::Result<Arc<OwnedFd>> {
        let of = |map: &Map| Shape {
            kind: map.map_type(),
            key_bytes: map.key_size(),
            value_bytes: map.value_size(),
        };
        let map = self.parsed.maps.get(name);
        let map = map.filter(|map| of(map) == shape).ok_or_else(|| {
            let found = map.map(of);
            io::Error::other(format!(
                "the map {name} is {found:?} in the object, and not {shape:?}"
            ))
        })?;
        let fd = Arc::new(create(shape, entries.unwrap_or(map.max_entries()))?);
        self.maps.insert(name.to_owned(), fd.clone());
        Ok(fd)
    }

    /// Loads a program; `kind`: the program's type, and what it will be attached to where the kernel wants to know that
    /// beforehand.
    ///
    /// # Errors
    /// There is no such program, a map was not made, a view is missing, or the kernel refuses the program.
    pub fn load(&self, program: &str, kind: (u32, u32)) -> io::Result<OwnedFd> {
        let mut object = self.parsed.clone();
        let target = btf::target(&self.views, &self.constants);
        let target = Btf::parse(&target, object.endianness).map_err(io::Error::other)?;
        object.relocate_btf(&target).map_err(io::Error::other)?;
        let maps = std::mem::take(&mut object.maps);
        let fds = maps.iter().map(|(name, map)| {
            let fd = self
                .maps
                .get(name)
                .ok_or_else(|| io::Error::other(format!("the map {name} was not made")))?;
            Ok((name.as_str(), fd.as_raw_fd(), map))
        });
        let fds: Vec<_> = fds.collect::<io::Result<_>>()?;
        object
            .relocate_maps(fds.into_iter(), &HashSet::new())
            .map_err(io::Error::other)?;
        let found = object
            .programs
            .get(program)
            .and_then(|found| object.functions.get(&found.function_key()));
        let function = found
            .ok_or_else(|| io::Error::other(format!("the object has no program {program}")))?;
        load(program, kind, &function.instructions, &object.license)
    }

    /// As the programs have it.
    pub fn structure(&self, name: &str) -> Option<Structure> {
        btf::structure(&self.parsed.btf.as_ref()?.to_bytes(), name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_is_one() {
        for (file, programs) in [
            (
                sched(),
                &["on_switch", "on_waking", "on_sample", "on_some"][..],
            ),
            (heap(), &["on_entry", "on_exit"]),
            (hits(), &["on_hit"]),
            (
                requests(),
                &["on_ready", "on_receive", "on_send", "on_state"],
            ),
        ] {
            let object = Object::parse(file).unwrap();
            let mut found: Vec<&str> = object.parsed.programs.keys().map(String::as_str).collect();
            found.sort_unstable();
            let mut programs = programs.to_vec();
            programs.sort_unstable();
            assert_eq!(found, programs);
            assert_eq!(object.parsed.license.to_bytes(), b"Dual MIT/GPL");
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut object = Object::parse(hits()).unwrap();
        let error = object.load("on_hit", (2, 0)).unwrap_err().to_string();
        assert!(error.contains("the map"), "{error}");
        let shape = Shape {
            kind: 1,
            key_bytes: 4,
            value_bytes: 8,
        };
        let error = object.create("cpus", shape, None).unwrap_err().to_string();
        assert!(error.contains("cpus"), "{error}");
    }
}
