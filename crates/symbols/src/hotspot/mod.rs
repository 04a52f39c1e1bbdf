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
pub use walk::{HotSpot, State};

/// Set in an address of a stack that is a Java method and not code.
pub const JAVA_METHOD: u64 = 1 << 62;
/// Addresses of user space have so many bits; the index of the bytecode stands above, 0: not known.
const ADDRESS_BITS: u32 = 47;
const INDEX_MAX: u64 = (1 << (62 - ADDRESS_BITS)) - 2;

/// Whether an address of a stack is a Java method.
pub fn is_java(address: u64) -> bool {
    address >> 62 == 1
}

/// `bytecode`: index of the bytecode in the method.
fn tagged(method: u64, bytecode: Option<u64>) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

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
