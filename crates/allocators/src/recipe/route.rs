//! Ways to get an allocator: where its source comes from, how the library is made of it.

use serde::{Deserialize, Serialize};

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
    /// The start of the versions that may take its place when a point release of the suite has moved
    /// on, such as `2.41-`. What took its place is held by the archive's signed index and recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successors: Option<String>,
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
    /// As in [`Package`]; the tar file stays the same, and so does its sha256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successors: Option<String>,
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

/// The compiler: sources in, shared library out, by one call unless `separately` is set.
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
    /// Each source by itself, as many at a time as the machine has cores, then one link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub separately: bool,
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

impl Route {
    pub(super) fn faults(&self, faults: &mut Vec<String>) {
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
    /// How the library is made, in one line for people.
    pub fn describe(&self) -> String {
        match self {
            Build::System => "what the machine has".to_owned(),
            Build::Compile(c) => {
                let defines = c.define.iter().map(|d| format!("-D{d}"));
                let words: Vec<String> = c.flags.iter().cloned().chain(defines).collect();
                let sources = match &c.sources[..] {
                    few if few.len() <= 8 => few.join(" "),
                    many => format!("({} sources)", many.len()),
                };
                format!("compiled with {} {sources}", words.join(" "))
            }
            Build::Configure(c) => format!(
                "configured with {} CFLAGS=\"{}\"",
                c.arguments.join(" "),
                c.cflags
            ),
            Build::Cmake(c) => format!(
                "cmake -DCMAKE_BUILD_TYPE=Release {}, target {}",
                c.arguments.join(" "),
                c.target
            ),
            Build::Copy(c) => format!("the package's own {}", c.file),
            Build::Loader(c) => {
                format!("the package's own {}, through its {}", c.library, c.loader)
            }
            Build::Zig(c) => format!("zig build-lib {} for {}", c.flags.join(" "), c.target),
        }
    }

    /// The files of `allocators/files/` that it uses.
    pub fn own_files(&self) -> &[OwnFile] {
        match self {
            Build::Compile(compile) => &compile.files,
            Build::Zig(zig) => &zig.files,
            _ => &[],
        }
    }

    pub(crate) fn own_files_mut(&mut self) -> &mut [OwnFile] {
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
