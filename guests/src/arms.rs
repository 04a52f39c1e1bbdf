//! The arms of the experiment. A new way to watch a program is a new arm in `groups`, nothing else.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::attach::{Attach, Way};
use crate::links::{Link, stem};
use crate::program::Chain;
use crate::workshop::Workshop;

/// One way to run a program.
#[derive(Clone, Debug)]
pub struct Arm {
    pub name: String,
    /// Preloaded, before the allocator.
    pub probe: Option<PathBuf>,
    pub allocator: Option<PathBuf>,
    pub env: Vec<(&'static str, &'static str)>,
    /// The probe records every call into a trace of its own for each run.
    pub records: bool,
    /// What is attached to it and detached again.
    pub attach: Option<Attach>,
    /// It waits so long at each gate.
    pub pause: Duration,
}

/// One build over one allocator: its plain arm, and those that are compared with it.
pub struct Group {
    pub link: Link,
    pub control: Arm,
    pub arms: Vec<Arm>,
    /// One of these runs for each program: they take longer.
    pub attached: Vec<Arm>,
}

/// What is available for arms.
pub struct Means {
    pub probe: PathBuf,
    pub highwater: Option<PathBuf>,
    /// Of arms that are to run, part of the name; all if there are none.
    pub only: Vec<String>,
}

/// The arms of one build over one preloaded allocator; `None` is the C library's, or the one that is linked in.
pub fn group(means: &Means, link: &Link, allocator: Option<&Path>) -> Group {
    let over = match (link.is_dynamic(), allocator) {
        (true, Some(file)) => stem(file),
        (true, None) => "glibc".to_owned(),
        (false, _) => link.name.clone(),
    };
    let arm = |name: &str| Arm {
        name: format!("{name} over {over}"),
        probe: None,
        allocator: allocator.map(Path::to_owned),
        env: Vec::new(),
        records: false,
        attach: None,
        pause: Duration::ZERO,
    };
    let probed = |name: &str| Arm {
        probe: Some(means.probe.clone()),
        ..arm(name)
    };
    let mut arms = Vec::new();
    if link.is_dynamic() {
        arms.push(probed("probe"));
        // Every block is a sample: the slow path all the way.
        arms.push(Arm {
            env: vec![("HIGHWATER_PROBE_MEAN", "1")],
            ..probed("probe of every block")
        });
        arms.push(Arm {
            records: true,
            ..probed("recorder")
        });
    }
    let mut attached = Vec::new();
    if let Some(highwater) = &means.highwater {
        for way in Way::ALL {
            let attach = Attach::new(way, highwater);
            attached.push(Arm {
                attach: Some(attach),
                ..arm(way.name())
            });
        }
        if link.is_dynamic() {
            attached.push(Arm {
                attach: Some(Attach::new(Way::Explain, highwater)),
                ..probed("probe and explain")
            });
        }
    }
    let is_chosen = |arm: &Arm| {
        means.only.is_empty()
            || means
                .only
                .iter()
                .any(|part| arm.name.contains(part.as_str()))
    };
    arms.retain(is_chosen);
    attached.retain(is_chosen);
    Group {
        link: link.clone(),
        control: arm("plain"),
        arms,
        attached,
    }
}

impl Arm {
    /// The value of LD_PRELOAD.
    pub fn preload(&self, workshop: &Workshop, chain: Chain) -> OsString {
        let link = workshop.path("chain.so");
        let mut files: Vec<PathBuf> = Vec::new();
        files.extend((chain == Chain::Before).then(|| link.clone()));
        files.extend(self.probe.clone());
        files.extend((chain == Chain::After).then_some(link));
        files.extend(self.allocator.clone());
        let mut value = OsString::new();
        for file in files {
            if !value.is_empty() {
                value.push(":");
            }
            value.push(file);
        }
        value
    }
}
