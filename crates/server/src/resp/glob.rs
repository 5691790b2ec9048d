//! Glob patterns as in Redis: `*`, `?`, `[abc]`, `[^a-c]`, and `\` as escape.

/// Whether the whole text matches. Takes at most as many steps as the product of both lengths.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // After the last star, and where in the text it stopped.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some(_), Some(byte)) => {
                if let Some(next) = one(pattern, p, *byte) {
                    (p, t) = (next, t + 1);
                    continue;
                }
            }
            _ => {}
        }
        match star {
            Some((after, from)) if from < text.len() => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// Where the pattern continues if its next part matches this byte.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'\\' => match pattern.get(at + 1) {
            Some(literal) => (*literal == byte).then_some(at + 2),
            None => (byte == b'\\').then_some(at + 1),
        },
        b'[' => class(pattern, at + 1, byte),
        literal => (literal == byte).then_some(at + 1),
    }
}

fn class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match (pattern.get(at), pattern.get(at + 1), pattern.get(at + 2)) {
            // An unclosed class ends with the pattern.
            (None, ..) => return (found != negated).then_some(at),
            (Some(b']'), ..) => return (found != negated).then_some(at + 1),
            (Some(b'\\'), Some(literal), _) => {
                found |= *literal == byte;
                at += 2;
            }
            (Some(low), Some(b'-'), Some(high)) if *high != b']' => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                at += 3;
            }
            (Some(literal), ..) => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_redis_has_them() {
        let cases = [
            ("*", "", true),
            ("*", "abc", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("*a*b*", "xxaxxbxx", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("user:[0-9]*", "user:7x", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("[a", "a", true),
            ("a\\", "a\\", true),
            ("**", "a", true),
        ];
        for (pattern, text, fits) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = "a*".repeat(50);
        assert!(!matches(format!("{pattern}b").as_bytes(), "a".repeat(5_000).as_bytes()));
    }
}
