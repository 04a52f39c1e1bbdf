//! Java functions on a thread's stack, read from outside while the thread goes on.
//!
//! HotSpot publishes the layout of its own structures in its memory (`vmStructs.cpp`, for the serviceability agent):
//!
//! ```text
//! pc -> CodeCache, CodeHeap, segment map -> CodeBlob: where the frame ends
//!    compiled       frame size; PcDesc and scopes: the methods that were inlined there
//!    interpreted    the method and its bytecode are in the frame
//!    call_stub      a frame by frame pointer; outside of it is C++ again
//! ```
//!
//! A method stands in a stack as [`JAVA_METHOD`], its bytecode's index and its address: [`JavaMethods`] names it.
//! Read on x86-64, of HotSpot 11 to 25.

mod blob;
mod layout;
mod method;
mod scopes;
mod tables;
mod walk;

pub use method::JavaMethods;
pub use scopes::Numbers;
pub use tables::{Tables, published};
pub use walk::{HotSpot, State};

/// Set in an address of a stack that is a Java method and not code; the bit below it is not.
pub const JAVA_METHOD: u64 = 1 << 62;
/// Addresses of user space have so many bits; the index of the bytecode stands above, 0: not known.
const ADDRESS_BITS: u32 = 47;
const INDEX_MAX: u64 = (1 << (61 - ADDRESS_BITS)) - 2;

/// Whether an address of a stack is a Java method.
pub fn is_java(address: u64) -> bool {
    address >> 61 == JAVA_METHOD >> 61
}

/// The same without the place in the method.
pub fn without_place(address: u64) -> u64 {
    match is_java(address) {
        true => tagged(untagged(address).0, None),
        false => address,
    }
}

/// A method as it stands in a stack. `bytecode`: index of the bytecode in the method.
pub fn tagged(method: u64, bytecode: Option<u64>) -> u64 {
    let index = bytecode
        .filter(|index| *index <= INDEX_MAX)
        .map_or(0, |index| index + 1);
    JAVA_METHOD | index << ADDRESS_BITS | method
}

/// The method, and the index of its bytecode.
fn untagged(address: u64) -> (u64, Option<u64>) {
    let method = address & ((1 << ADDRESS_BITS) - 1);
    let index = (address & !JAVA_METHOD) >> ADDRESS_BITS;
    (method, index.checked_sub(1))
}

/// Packages of the Java platform.
const PACKAGES: [&str; 5] = ["java.", "javax.", "jdk.", "sun.", "com.sun."];

/// Whether a class or a method is the Java platform's, by its name.
pub fn in_platform(name: &str) -> bool {
    PACKAGES.iter().any(|package| name.starts_with(package))
}

/// A library that comes with the JVM, by its file: what it does, it does for a Java method further out.
pub fn is_jvm(path: &str) -> bool {
    const FILES: [&str; 8] = [
        "libjvm.so",
        "libjava.so",
        "libjimage.so",
        "libjli.so",
        "libnet.so",
        "libnio.so",
        "libverify.so",
        "libzip.so",
    ];
    FILES.contains(&path.rsplit('/').next().unwrap_or(path))
}

/// What tells one project's classes from another's: the first two parts of a package's name. `None`: no package.
pub fn project(name: &str) -> Option<&str> {
    let class = name.rsplit_once('.').map_or(name, |(class, _)| class);
    let mut dots = class.match_indices('.').map(|(at, _)| at);
    let (first, second) = (dots.next()?, dots.next());
    Some(&class[..second.unwrap_or(first)])
}

/// The project of the class that a JVM was started with, by its command line; `None`: it has no package, or the class
/// is not on the command line (`-jar`).
pub fn own_project(pid: u32) -> Option<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = line.split(|byte| *byte == 0).skip(1);
    let words: Vec<String> = words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    main_class(&words).and_then(|class| project(&format!("{class}.main")).map(str::to_owned))
}

/// The first word that is no option and belongs to none (java(1)).
fn main_class(words: &[String]) -> Option<&str> {
    const WITH_A_WORD: [&str; 10] = [
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "--add-modules",
        "--add-opens",
        "--add-exports",
        "--add-reads",
        "--upgrade-module-path",
    ];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-jar" => return None,
            "-m" | "--module" => return words.next()?.split_once('/').map(|(_, class)| class),
            option if WITH_A_WORD.contains(&option) => {
                words.next();
            }
            option if option.starts_with(['-', '@']) => {}
            class => return Some(class),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_that_was_started() {
        for (line, expected) in [
            (
                "-Xmx64m -cp a.jar:b com.shop.Main --port 1",
                Some("com.shop.Main"),
            ),
            ("-XX:+UseZGC -jar shop.jar", None),
            ("-p mods -m shop/com.shop.Main", Some("com.shop.Main")),
            ("-version", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(main_class(&words), expected, "{line}");
        }
    }

    #[test]
    fn projects_by_their_packages() {
        for (name, expected) in [
            ("com.shop.orders.Take.run", Some("com.shop")),
            ("ch.qos.logback.core.Appender.append", Some("ch.qos")),
            ("shop.Orders.take", Some("shop")),
            ("App.main", None),
            ("App$1.run", None),
        ] {
            assert_eq!(project(name), expected, "{name}");
        }
    }

    #[test]
    fn a_method_and_its_bytecode_come_back() {
        let method = 0x7f41_cd94_b280;
        for bytecode in [None, Some(0), Some(7), Some(INDEX_MAX)] {
            let address = tagged(method, bytecode);
            assert!(is_java(address), "{address:#x}");
            assert_eq!(untagged(address), (method, bytecode));
        }
        assert_eq!(untagged(tagged(method, Some(60_000))), (method, None));
        assert!(!is_java(method) && !is_java(1 << 63 | method));
    }
}
