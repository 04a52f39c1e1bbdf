//! Names that come from a JVM. The program chooses them, so their length has a limit.

/// A class name may have 65,535 bytes. Longer ones than this are cut.
pub(super) const TEXT_BYTES_MAX: usize = 300;

const CUT: char = '…';

/// At most [`TEXT_BYTES_MAX`] bytes; ends with `…` where it was cut.
pub(super) fn bounded(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let mut end = TEXT_BYTES_MAX - CUT.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push(CUT);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_letters() {
        assert_eq!(bounded("java.util.HashMap".into()), "java.util.HashMap");
        let longest = "a".repeat(TEXT_BYTES_MAX);
        assert_eq!(bounded(longest.clone()), longest);
        for long in [
            "a".repeat(TEXT_BYTES_MAX + 1),
            "ä".repeat(65_535),
            "x".to_owned() + &"語".repeat(200),
        ] {
            let cut = bounded(long);
            assert!(
                cut.len() <= TEXT_BYTES_MAX && cut.len() > TEXT_BYTES_MAX - 4,
                "{}",
                cut.len()
            );
            assert!(cut.ends_with(CUT));
        }
    }
}
