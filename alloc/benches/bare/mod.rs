//! The chosen allocator by the type of its own crate: what this crate is compared with.

#[cfg(feature = "jemalloc")]
pub static BARE: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
#[cfg(any(feature = "mimalloc2", feature = "mimalloc3"))]
pub static BARE: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[cfg(feature = "snmalloc")]
pub static BARE: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;
#[cfg(feature = "rpmalloc")]
pub static BARE: rpmalloc::RpMalloc = rpmalloc::RpMalloc;
#[cfg(feature = "tcmalloc")]
pub static BARE: tcmalloc_better::TCMalloc = tcmalloc_better::TCMalloc;
#[cfg(not(any(
    feature = "jemalloc",
    feature = "mimalloc2",
    feature = "mimalloc3",
    feature = "snmalloc",
    feature = "rpmalloc",
    feature = "tcmalloc"
)))]
pub static BARE: std::alloc::System = std::alloc::System;
