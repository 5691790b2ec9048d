//! Percent-encoding of paths and queries. Malformed escapes are refused: decoded leniently, two URLs could name one id.

/// Whether every `%` begins an escape and the result is UTF-8.
pub(super) fn is_valid(text: &str) -> bool {
    if !text.contains('%') {
        return true;
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else { return false };
        decoded.push(high << 4 | low);
    }
    std::str::from_utf8(&decoded).is_ok()
}

fn digit(byte: Option<u8>) -> Option<u8> {
    let value = char::from(byte?).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_whole_and_come_to_text() {
        for text in ["", "/users/a", "a%20b", "%f0%9F%98%80", "%25zz", "%00"] {
            assert!(is_valid(text), "{text}");
        }
        for text in ["%", "a%4", "%zz", "%+1", "%FF", "%F0%9F", "%%41", "%4\u{e9}"] {
            assert!(!is_valid(text), "{text}");
        }
    }
}
