//! What a recipe file says: an allocator of one version, where it comes from, how it is built, what
//! is known about it. Pure data; `allocators/README.md` describes the format for people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One file of `allocators/`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub name: String,
    /// The upstream version; `system` for what the machine has.
    pub version: String,
    /// One line: what it is, and what is special about this entry.
    pub summary: String,
    /// As the source says it, in SPDX words where they exist.
    pub licence: String,
    /// What the allocator itself can tell about its heap at run time.
    pub statistics: String,
    /// Why it is added only when it is named (a slow build), if so.
    pub opt_in: Option<String>,
    /// Misuse that stops the program instead of corrupting it.
    #[serde(default)]
    pub protections: Vec<String>,
    /// What is known to be wrong with exactly this version.
    #[serde(default)]
    pub defects: Vec<Defect>,
    #[serde(default)]
    pub version_proof: VersionProof,
    #[serde(default)]
    pub tunables: Tunables,
    /// Ways to get it; the first that fits the machine is used.
    #[serde(rename = "route")]
    pub routes: Vec<Route>,
}

/// A known defect. `id` is a stable word for reports; `text` is one sentence with numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defect {
    pub id: String,
    pub text: String,
}

/// How a built library shows that it is the version its recipe claims.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionProof {
    /// Texts that must stand in the library's bytes.
    #[serde(default)]
    pub strings: Vec<String>,
    /// What a program started with it prints on stderr.
    pub says: Option<Says>,
    /// A line of the source that was compiled.
    pub source: Option<SourceText>,
    /// Why none of these is possible.
    pub because: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Says {
    pub environment: BTreeMap<String, String>,
    pub text: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceText {
    /// Relative to the source's folder.
    pub file: String,
    pub text: String,
}

/// What this version reads from the environment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunables {
    /// Whole variables; a `*` at the end of one stands for any rest.
    #[serde(default)]
    pub variables: Vec<String>,
    /// Variables that hold many `key=value`.
    #[serde(default)]
    pub lists: Vec<TunableList>,
    /// Every value is a number: anything else is ignored by the allocator without a word.
    #[serde(default)]
    pub numeric: bool,
}

/// A variable such as `MALLOC_CONF=key:value,key:value`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunableList {
    pub variable: String,
    /// What stands between two pairs.
    pub between: char,
    /// What stands between a key and its value.
    pub assign: char,
    pub keys: Vec<String>,
    /// Keys that exist upstream and are compiled out here, with the reason.
    #[serde(default)]
    pub compiled_out: Vec<String>,
    #[serde(default)]
    pub compiled_out_because: String,
}

/// One way to get the library: a source and a build.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Machine architectures it serves, as the kernel names them; empty means all.
    #[serde(default)]
    pub architectures: Vec<String>,
    /// Debian versions (`VERSION_ID`) it serves; empty means any system.
    #[serde(default)]
    pub debian: Vec<String>,
    pub source: Source,
    pub build: Build,
    /// Licence texts to keep, relative to the source's folder.
    #[serde(default)]
    pub licence_files: Vec<String>,
}

/// Where a source comes from. All but `System` carry a sha256.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// What the machine has: nothing to fetch.
    System,
    Cargo(Crate),
    Apt(Package),
    AptTarball(SourcePackage),
    Pip(Wheel),
}

/// A crate of the Cargo registry.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Crate {
    #[serde(rename = "crate")]
    pub name: String,
    /// As the registry has it, with what follows a `+`.
    pub version: String,
    pub sha256: String,
    /// Name of the lock file in `allocators/locks/`, without `.lock`.
    pub lock: String,
    /// The lock file's text, filled in by the catalogue.
    #[serde(default)]
    pub lock_text: String,
}

/// A Debian package.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    pub package: String,
    pub version: String,
    /// The suite that carries it, such as `bookworm`.
    pub suite: String,
    /// Of the `.deb`.
    pub sha256: String,
    /// More packages of the same suite, unpacked into the same folder.
    #[serde(default)]
    pub with: Vec<FurtherPackage>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FurtherPackage {
    pub package: String,
    pub version: String,
    pub sha256: String,
}

/// The upstream archive inside a Debian source package.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePackage {
    pub package: String,
    pub version: String,
    pub suite: String,
    /// The tar file of the upstream source.
    pub file: String,
    /// Of that tar file.
    pub sha256: String,
    /// The folder that it unpacks to.
    pub folder: String,
}

/// A wheel of the Python package index.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    pub package: String,
    pub version: String,
    pub sha256: String,
}

/// How the library is made from the source.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Build {
    /// Nothing to build.
    System,
    Compile(Compile),
    Configure(Configure),
    Cmake(Cmake),
    Copy(CopyOut),
    Loader(LoaderOut),
    Zig(Zig),
}

/// One call of the compiler: sources in, shared library out.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Compile {
    pub language: Language,
    /// Folder that the other paths are relative to, itself relative to the source's folder.
    #[serde(default)]
    pub folder: String,
    pub sources: Vec<String>,
    #[serde(default)]
    pub include: Vec<String>,
    #[serde(default)]
    pub define: Vec<String>,
    #[serde(default)]
    pub flags: Vec<String>,
    /// Libraries to link, such as `pthread`.
    #[serde(default)]
    pub link: Vec<String>,
    /// Files of `allocators/files/` that are laid into `folder` first, over what is there.
    #[serde(default)]
    pub files: Vec<OwnFile>,
    /// File name of the library.
    pub library: String,
}

/// A file of our own that goes into a source tree.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OwnFile {
    /// Its name in `allocators/files/`.
    pub file: String,
    /// Where it goes, relative to the build's folder.
    pub to: String,
    /// Its text, filled in by the catalogue.
    #[serde(default)]
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Language {
    C,
    #[serde(rename = "c++")]
    Cxx,
}

/// A `configure` script and `make`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Configure {
    /// The folder that is configured, relative to the source's folder.
    pub folder: String,
    /// The script, relative to the source's folder; copied into `folder` first.
    pub script: String,
    #[serde(default)]
    pub arguments: Vec<String>,
    /// `CFLAGS` and `CXXFLAGS` for both.
    pub cflags: String,
    pub targets: Vec<String>,
    /// The library, relative to `folder`.
    pub output: String,
}

/// One target of a CMake project.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cmake {
    pub folder: String,
    #[serde(default)]
    pub arguments: Vec<String>,
    #[serde(default)]
    pub flags: Vec<String>,
    pub target: String,
    /// The library, relative to the build folder.
    pub output: String,
}

/// A library that the package already contains.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CopyOut {
    /// Relative to the unpacked package; `*` matches inside one name.
    pub file: String,
    /// Libraries that must be preloaded before it.
    #[serde(default)]
    pub companions: Vec<String>,
}

/// A whole C library with its own loader: nothing is preloaded, the program is started through it.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderOut {
    /// The folder of the package that holds all of it.
    pub folder: String,
    /// File name of the loader in it.
    pub loader: String,
    /// File name of the C library in it.
    pub library: String,
}

/// One call of the Zig compiler that a wheel carries.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Zig {
    /// Files of `allocators/files/`; the first is the root of the library.
    pub files: Vec<OwnFile>,
    /// What follows the architecture in Zig's name of the target, such as `linux-gnu.2.28`.
    pub target: String,
    pub flags: Vec<String>,
    pub library: String,
}

/// The system glibc's recipe has this version.
pub const SYSTEM_VERSION: &str = "system";

impl Recipe {
    /// `name@version`, or the bare name of what the machine has.
    pub fn label(&self) -> String {
        if self.is_system() {
            self.name.clone()
        } else {
            format!("{}@{}", self.name, self.version)
        }
    }

    pub fn is_system(&self) -> bool {
        self.version == SYSTEM_VERSION
    }

    /// What is wrong with the recipe itself; empty for a good one. Run over the whole catalogue by
    /// a test, so that a bad file never ships.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.routes.is_empty() {
            faults.push("has no [[route]]".to_owned());
        }
        let named = |text: &str| {
            !text.is_empty()
                && text
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._+-".contains(c))
        };
        if !named(&self.name) || !named(&self.version) {
            faults.push(format!("name and version must be plain: {}", self.label()));
        }
        for route in &self.routes {
            route.faults(&mut faults);
        }
        if self.version_proof.is_empty() && !self.is_system() {
            faults.push("version_proof says neither a proof nor `because`".to_owned());
        }
        faults
    }
}

impl VersionProof {
    fn is_empty(&self) -> bool {
        self.strings.is_empty()
            && self.says.is_none()
            && self.source.is_none()
            && self.because.is_none()
    }
}

impl Route {
    fn faults(&self, faults: &mut Vec<String>) {
        for (what, sum) in self.source.checksums() {
            let hexadecimal = sum.len() == 64 && sum.bytes().all(|b| b.is_ascii_hexdigit());
            if !hexadecimal {
                faults.push(format!("{what} has no sha256 of 64 digits: {sum:?}"));
            }
        }
        let system = matches!(self.source, Source::System);
        if system != matches!(self.build, Build::System) {
            faults.push("only the system's own library goes without a build".to_owned());
        }
        for path in self.paths() {
            if path.starts_with('/') || path.split('/').any(|part| part == "..") {
                faults.push(format!("path leaves the source's folder: {path}"));
            }
        }
    }

    fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = self.licence_files.iter().map(String::as_str).collect();
        paths.extend(self.build.own_files().iter().map(|f| f.to.as_str()));
        match &self.build {
            Build::System => {}
            Build::Compile(c) => {
                paths.extend([c.folder.as_str(), c.library.as_str()]);
                paths.extend(c.sources.iter().chain(&c.include).map(String::as_str));
            }
            Build::Configure(c) => paths.extend([&*c.folder, &*c.script, &*c.output]),
            Build::Cmake(c) => paths.extend([&*c.folder, &*c.output]),
            Build::Copy(c) => {
                paths.push(&c.file);
                paths.extend(c.companions.iter().map(String::as_str));
            }
            Build::Loader(c) => paths.extend([&*c.folder, &*c.loader, &*c.library]),
            Build::Zig(c) => paths.push(&c.library),
        }
        paths
    }
}

impl Build {
    /// The files of `allocators/files/` that it uses.
    pub fn own_files(&self) -> &[OwnFile] {
        match self {
            Build::Compile(compile) => &compile.files,
            Build::Zig(zig) => &zig.files,
            _ => &[],
        }
    }

    pub(super) fn own_files_mut(&mut self) -> &mut [OwnFile] {
        match self {
            Build::Compile(compile) => &mut compile.files,
            Build::Zig(zig) => &mut zig.files,
            _ => &mut [],
        }
    }
}

impl Source {
    /// The client that fetches it, as `--route` and `list` name it.
    pub fn client(&self) -> &'static str {
        match self {
            Source::System => "system",
            Source::Cargo(_) => "cargo",
            Source::Apt(_) | Source::AptTarball(_) => "apt",
            Source::Pip(_) => "pip",
        }
    }

    /// One line for people and manifests.
    pub fn describe(&self) -> String {
        match self {
            Source::System => "this machine".to_owned(),
            Source::Cargo(c) => format!("crate {} {}", c.name, c.version),
            Source::Apt(p) => format!("deb {} {} ({})", p.package, p.version, p.suite),
            Source::AptTarball(p) => format!("source {} {} ({})", p.package, p.version, p.suite),
            Source::Pip(w) => format!("wheel {} {}", w.package, w.version),
        }
    }

    /// Every checksum it carries, with what it is of.
    pub fn checksums(&self) -> Vec<(String, &str)> {
        match self {
            Source::System => Vec::new(),
            Source::Cargo(c) => vec![(format!("crate {}", c.name), c.sha256.as_str())],
            Source::Apt(p) => std::iter::once((format!("deb {}", p.package), p.sha256.as_str()))
                .chain(
                    p.with
                        .iter()
                        .map(|f| (format!("deb {}", f.package), f.sha256.as_str())),
                )
                .collect(),
            Source::AptTarball(p) => vec![(p.file.clone(), p.sha256.as_str())],
            Source::Pip(w) => vec![(format!("wheel {}", w.package), w.sha256.as_str())],
        }
    }
}
