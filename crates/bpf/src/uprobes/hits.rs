//! Probes that record each hit: when, by which thread, some of its registers, and its stack where that is wanted.

use std::io;

use bytemuck::{Pod, Zeroable};

use super::attach::{Coming, Put, Target, Way};
use super::holders::prepare;
use super::own::{calls_ns, each, emulated, entry_offset, stepped};
use super::record::{self, Fields, Hit};
use crate::map::{PerCpu, Ring};
use crate::object;

/// For the calls that tell what a hit costs.
const TRIAL_RING_BYTES: u32 = 1 << 20;

/// Numbers of each CPU, as the program has them.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Cpu {
    hits: u64,
    stepped: u64,
    lost: u64,
}

/// One probed instruction of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Comes back in its hits.
    pub kind: u32,
    pub offset: u64,
    /// The kernel need not step what stands there.
    pub is_emulated: bool,
}

/// CPU time of a hit, and what one costs beyond that where the kernel makes a step, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    pub hit_ns: f64,
    pub step_ns: f64,
}

/// So far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    pub hits: u64,
    pub stepped: u64,
    pub lost: u64,
}

impl Cost {
    pub fn seconds(&self, counted: Counted) -> f64 {
        (counted.hits as f64 * self.hit_ns + counted.stepped as f64 * self.step_ns) / 1e9
    }
}

/// Probes on one process, until it is dropped.
pub struct Hits {
    ring: Ring,
    cpus: PerCpu<Cpu>,
    put: Put,
    places: usize,
    pub cost: Cost,
}

impl Hits {
    /// Learns what a hit costs, and then probes these places of the target's file.
    ///
    /// # Errors
    /// No right, a kernel that cannot, or a place that it refuses.
    pub fn of(
        target: &Target,
        places: &[Place],
        fields: Fields,
        ring_bytes: u32,
    ) -> io::Result<Hits> {
        prepare()?;
        let cost = measure_cost(fields)?;
        let hits = Hits::put_on(target, places, fields, ring_bytes)?;
        Ok(Hits { cost, ..hits })
    }

    /// By events first: with these a child that the process forks loses its copy of a breakpoint when it first hits
    /// it. The kernel may have no such events.
    fn put_on(
        target: &Target,
        places: &[Place],
        fields: Fields,
        ring_bytes: u32,
    ) -> io::Result<Hits> {
        let one = |way| Hits::by(way, target, places, fields, ring_bytes);
        one(Way::Events).or_else(|refused| one(Way::Multi).map_err(|_| refused))
    }

    pub(super) fn by(
        way: Way,
        target: &Target,
        places: &[Place],
        fields: Fields,
        ring_bytes: u32,
    ) -> io::Result<Hits> {
        let kind = way.kind()?;
        let mut object = object::Object::parse(object::hits())?;
        let mut hits = Hits {
            ring: Ring::create(&mut object, "ring", ring_bytes)?,
            cpus: PerCpu::create(&mut object, "cpus")?,
            put: Put::none(target.pid),
            places: places.len(),
            cost: Cost::default(),
        };
        object.view(fields.view());
        object.set("REGISTERS", fields.registers.len() as u32);
        object.set("FRAMES", fields.frames.into());
        for alike in places.chunk_by(|a, b| (a.kind, a.is_emulated) == (b.kind, b.is_emulated)) {
            object.set("KIND", alike[0].kind);
            object.set("IS_STEPPED", (!alike[0].is_emulated).into());
            let program = object.load("on_hit", kind)?;
            let offsets: Vec<u64> = alike.iter().map(|place| place.offset).collect();
            let coming = Coming::start(way, &program, &offsets, target)?;
            hits.put.join(coming.wait()?);
        }
        Ok(hits)
    }

    /// Instructions that are breakpoints, or were.
    pub fn places(&self) -> usize {
        self.places
    }

    pub fn is_on(&self) -> bool {
        !self.put.is_none()
    }

    /// Takes the probes off; what was counted and recorded stays.
    pub fn take_off(&mut self) {
        drop(self.put.take());
    }

    pub fn counted(&self) -> Counted {
        Counted {
            hits: self.cpus.sum(|cpu| cpu.hits),
            stepped: self.cpus.sum(|cpu| cpu.stepped),
            lost: self.cpus.sum(|cpu| cpu.lost),
        }
    }

    /// CPU time that they took of the process so far, seconds.
    pub fn cost_s(&self) -> f64 {
        self.cost.seconds(self.counted())
    }

    /// Hits since the last call, by time.
    pub fn drain(&mut self) -> Vec<Hit> {
        let mut hits = Vec::new();
        self.ring.drain(|bytes| hits.extend(record::parse(bytes)));
        hits.sort_by_key(|hit| hit.at_ns);
        hits
    }
}

/// What a hit costs on this machine, tried on functions of our own.
fn measure_cost(fields: Fields) -> io::Result<Cost> {
    let hit_ns = hit_ns_of(emulated, true, fields)?;
    let stepped_ns = hit_ns_of(stepped, false, fields)?;
    Ok(Cost {
        hit_ns,
        step_ns: (stepped_ns - hit_ns).max(0.0),
    })
}

fn hit_ns_of(probed: super::own::Probed, is_emulated: bool, fields: Fields) -> io::Result<f64> {
    let plain_ns = calls_ns(probed);
    let place = Place {
        kind: 0,
        offset: entry_offset(probed)?,
        is_emulated,
    };
    let _hits = Hits::put_on(&Target::own()?, &[place], fields, TRIAL_RING_BYTES)?;
    Ok(each(calls_ns(probed), plain_ns))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use ::object::{Object, ObjectSegment};

    use super::*;
    use crate::allowed::Allowed;
    use crate::uprobes::own::alone;
    use testkit::skipped;

    #[cfg(target_arch = "x86_64")]
    const FIELDS: Fields = Fields {
        // rdi
        registers: &[112],
        frames: 8,
    };

    fn call(arguments: std::ops::Range<usize>) {
        for argument in arguments {
            std::hint::black_box(emulated(argument));
        }
    }

    fn is_allowed() -> bool {
        let allowed = Allowed::try_all();
        let both = allowed.bpf.is_ok() && allowed.uprobes.is_ok();
        if !both {
            skipped("uprobes with programs on them need root");
        }
        both
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn each_hit_comes_with_its_thread_its_register_and_its_stack() {
        let _alone = alone();
        if !is_allowed() {
            return;
        }
        for way in [Way::Events, Way::Multi] {
            let place = Place {
                kind: 5,
                offset: entry_offset(emulated).unwrap(),
                is_emulated: true,
            };
            let mut hits = match Hits::by(way, &Target::own().unwrap(), &[place], FIELDS, 1 << 16) {
                Ok(hits) => hits,
                Err(error) if way == Way::Multi => {
                    skipped(&format!("many places at once: {error}"));
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let other = std::thread::spawn(|| {
                call(100..110);
                rustix::thread::gettid().as_raw_nonzero().get() as u32
            });
            let other = other.join().unwrap();
            call(1..11);
            hits.take_off();
            emulated(1_000);
            let found = hits.drain();
            assert_eq!(found.len(), 20, "{way:?}: {found:?}");
            assert_eq!((hits.counted().hits, hits.counted().lost), (20, 0));
            let of_other = found.iter().filter(|hit| hit.tid == other);
            let arguments: Vec<u64> = of_other.map(|hit| hit.registers[0]).collect();
            assert_eq!(arguments, (100..110).collect::<Vec<u64>>());
            let address = emulated as *const () as u64;
            assert!(found.iter().all(|hit| hit.stack.first() == Some(&address)));
            assert!(found.iter().all(|hit| hit.kind == 5));
        }
    }

    /// Its old program's offsets would be anywhere in the new one's code, within an instruction too.
    #[test]
    fn a_process_that_runs_another_program_by_then_gets_no_breakpoint() {
        let _alone = alone();
        if !is_allowed() {
            return;
        }
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "read go; exec sleep 60"])
            .stdin(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let target = Target::program_of(child.id()).unwrap();
        let before = std::fs::read_link(format!("/proc/{}/exe", child.id())).unwrap();
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let exe = || std::fs::read_link(format!("/proc/{}/exe", child.id())).unwrap();
        while exe() == before {
            std::thread::sleep(Duration::from_millis(5));
        }
        let offset = entry_of(&exe());
        let code = |path: &str, at: u64| {
            let mut code = [0; 16];
            File::open(path)
                .unwrap()
                .read_exact_at(&mut code, at)
                .unwrap();
            code
        };
        let plain = code(exe().to_str().unwrap(), offset);
        let place = Place {
            kind: 1,
            offset,
            is_emulated: false,
        };
        // The kernel may refuse: there is no instruction at that offset of the shell.
        let hits = Hits::put_on(&target, &[place], FIELDS, 4_096);
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
        let base = maps
            .lines()
            .next()
            .and_then(|line| line.split_once('-'))
            .unwrap()
            .0;
        let base = u64::from_str_radix(base, 16).unwrap();
        let mapped = code(&format!("/proc/{}/mem", child.id()), base + offset);
        drop(hits);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(mapped, plain);
    }

    /// The offset of a program's first instruction; below the first segment of code they are the same as its address.
    fn entry_of(program: &Path) -> u64 {
        let bytes = std::fs::read(program).unwrap();
        let file = ::object::File::parse(&*bytes).unwrap();
        let entry = file.entry();
        let holds = |segment: &::object::Segment<'_, '_>| {
            (segment.address()..segment.address() + segment.size()).contains(&entry)
        };
        let segment = file.segments().find(holds).unwrap();
        assert_eq!(
            segment.file_range().0,
            segment.address(),
            "{}",
            program.display()
        );
        entry
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_does_not_fit_the_ring_is_counted() {
        let _alone = alone();
        if !is_allowed() {
            return;
        }
        let place = Place {
            kind: 1,
            offset: entry_offset(emulated).unwrap(),
            is_emulated: true,
        };
        let mut hits = Hits::put_on(&Target::own().unwrap(), &[place], FIELDS, 4_096).unwrap();
        call(0..500);
        let counted = hits.counted();
        assert_eq!(counted.hits, 500);
        assert!(counted.lost > 100, "{counted:?}");
        assert_eq!(hits.drain().len() as u64, 500 - counted.lost);
    }

    #[test]
    fn numbers_are_as_the_program_has_them() {
        let object = object::Object::parse(object::hits()).unwrap();
        crate::assert_layout!(
            object,
            "cpu",
            Cpu {
                hits,
                stepped,
                lost
            }
        );
    }

    #[test]
    fn a_hit_costs_something() {
        let _alone = alone();
        let fields = Fields {
            registers: &[0],
            frames: 0,
        };
        if is_allowed() {
            assert!(measure_cost(fields).unwrap().hit_ns > 0.0);
        }
    }
}
