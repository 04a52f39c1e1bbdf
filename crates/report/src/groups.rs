//! Who was in which arm, since when, and what each process really ran.

use observe::member;
use observe::snapshot::Role;
use record::run::{Process, Run};
use series::arms::{came_along, first_arms, member_id, replica_id, seconds_between};
use verdict::run::proved_words;

/// One stretch of one process in one arm.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Id of its row in the record, which samples refer to.
    pub row: i64,
    pub arm: String,
    /// Unit, name, or arm and replica.
    pub process: String,
    pub unit: String,
    pub replica: u32,
    pub incarnation: u32,
    pub pid: i32,
    /// Seconds since the run began.
    pub from_s: f64,
    /// `None`: to the end of the run.
    pub until_s: Option<f64>,
    /// How it ended, or where it went.
    pub end: String,
    /// What it was proved to run: "jemalloc 5.3.0 (build id 1f2e3d4c)".
    pub proved: String,
    /// The file whose malloc answers.
    pub library: String,
    pub build_id: String,
    pub command: Vec<String>,
    pub counts: Counts,
}

/// Whether its readings count for its arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counts {
    Yes,
    /// It came from another arm without a restart.
    CameAlong,
    /// It was not what the arm says.
    LeftOut(String),
}

impl Counts {
    pub fn words(&self) -> String {
        match self {
            Counts::Yes => "yes".into(),
            Counts::CameAlong => "no: it came without a restart".into(),
            Counts::LeftOut(why) => format!("no: {why}"),
        }
    }
}

/// Every stretch, by arm in the order of the experiment, then by process and time.
pub fn stretches(run: &Run) -> Vec<Stretch> {
    let first = first_arms(run);
    let subjects = run.processes.iter().filter(|p| p.role == Role::Subject);
    let mut all: Vec<(usize, Stretch)> = subjects
        .map(|process| {
            let mut arms = run.experiment.arms.iter();
            let place = arms.position(|arm| arm.name == process.arm);
            let counts = match member::latest(&process.facts, member::LEFT_OUT) {
                Some(why) => Counts::LeftOut(why.to_owned()),
                None if came_along(process, &first) => Counts::CameAlong,
                None => Counts::Yes,
            };
            (place.unwrap_or(usize::MAX), stretch(run, process, counts))
        })
        .collect();
    all.sort_by(|(a, x), (b, y)| {
        let key = |s: &Stretch| (s.replica, s.incarnation);
        a.cmp(b).then_with(|| key(x).cmp(&key(y)))
    });
    all.into_iter().map(|(_, stretch)| stretch).collect()
}

fn stretch(run: &Run, process: &Process, counts: Counts) -> Stretch {
    let fact = |key: &str| {
        member::latest(&process.facts, key)
            .unwrap_or_default()
            .to_owned()
    };
    let id = match process.facts.contains_key(member::NAME) {
        true => member_id(process),
        false => replica_id(process),
    };
    Stretch {
        row: process.id.0,
        arm: process.arm.clone(),
        process: id,
        unit: fact(member::UNIT),
        replica: process.replica,
        incarnation: process.incarnation,
        pid: process.pid,
        from_s: seconds_between(run.begun, process.started),
        until_s: process.ended.map(|ended| seconds_between(run.begun, ended)),
        end: process.exit.clone().unwrap_or_default(),
        proved: proved_words(process).unwrap_or_default(),
        library: fact("malloc.library"),
        build_id: fact("allocator.build_id"),
        command: process.command.clone(),
        counts,
    }
}

/// Whether anybody changed arms, came late, left, or does not count: then the list is worth a table.
pub fn changed(all: &[Stretch]) -> bool {
    let others = |a: &Stretch| all.iter().any(|b| b.process == a.process && b.arm != a.arm);
    all.iter()
        .any(|one| one.counts != Counts::Yes || one.end.starts_with("left") || others(one))
}
