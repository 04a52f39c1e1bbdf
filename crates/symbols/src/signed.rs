//! Signed return addresses. A CPU with pointer authentication (Arm's PAC) puts a signature into the upper bits of a
//! return address before the function saves it.

use crate::registers::Registers;
use framehop::UnwindRegsNative;

/// The address in a word that may be a signed return address. On CPUs without pointer authentication: the word.
#[cfg(target_arch = "aarch64")]
#[inline]
pub fn address_in(word: u64) -> u64 {
    let mut address = word;
    // SAFETY: xpaclri, as its number among the hints: it changes x30 alone, and older CPUs do nothing for it.
    unsafe {
        std::arch::asm!(
            "hint #7",
            inlateout("x30") address,
            options(nomem, nostack, preserves_flags),
        );
    }
    address
}

/// Other CPUs sign nothing.
#[cfg(not(target_arch = "aarch64"))]
#[inline]
pub fn address_in(word: u64) -> u64 {
    word
}

#[cfg(target_arch = "aarch64")]
pub fn native(regs: Registers) -> UnwindRegsNative {
    use framehop::aarch64::PtrAuthMask;
    // Of all bits below the one that tells a program's addresses from the kernel's, those that hold no signature. The
    // processes that are watched run on this CPU.
    let mask = PtrAuthMask(address_in(u64::MAX >> 9));
    UnwindRegsNative::new_with_ptr_auth_mask(mask, regs.lr, regs.sp, regs.fp)
}

#[cfg(target_arch = "x86_64")]
pub fn native(regs: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(regs.pc, regs.sp, regs.fp)
}

#[cfg(target_arch = "aarch64")]
pub fn frame_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.fp()
}

#[cfg(target_arch = "x86_64")]
pub fn frame_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.bp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_signature_stays() {
        for word in [0, 0x40_0000, 0x0000_ffff_8abc_1234] {
            assert_eq!(address_in(word), word);
        }
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn a_signature_goes() {
        let address = 0x0000_aaaa_bbbb_cccc_u64;
        let mut signed = address;
        // SAFETY: pacia x17 with x16, as its number among the hints (pacia1716): it changes x17 alone.
        unsafe {
            std::arch::asm!(
                "hint #8",
                inlateout("x17") signed,
                in("x16") 7_u64,
                options(nomem, nostack, preserves_flags),
            );
        }
        assert_eq!(address_in(signed), address);
        let regs = native(Registers {
            lr: signed,
            ..Registers::default()
        });
        assert_eq!(regs.lr(), address);
    }
}
