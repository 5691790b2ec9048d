//! Whether names look alike: what a reader takes for the same, with other letters, digits or signs in it.

/// Longer names are compared up to here.
const COMPARED_CHARS: usize = 32;
/// Shorter ones must be the same.
const SHORT_CHARS: usize = 4;
/// One letter in five may differ.
const LETTERS_A_MISTAKE: usize = 5;
/// Names that all others are compared with.
const MODELS: usize = 3;

/// A name without what is varied to make another one of it: case, signs, digits at the end, digits that stand for letters.
pub(super) fn plain(name: &str) -> Vec<char> {
    let letters = name.chars().flat_map(char::to_lowercase).filter(|letter| letter.is_alphanumeric());
    let mut plain: Vec<char> = letters.take(COMPARED_CHARS).collect();
    while plain.last().is_some_and(char::is_ascii_digit) {
        plain.pop();
    }
    for letter in &mut plain {
        *letter = match *letter {
            '0' => 'o',
            '1' | 'i' => 'l',
            '3' => 'e',
            '4' => 'a',
            '5' => 's',
            '7' => 't',
            other => other,
        };
    }
    plain
}

/// Both as [`plain`] made them.
pub(super) fn are_alike(one: &[char], other: &[char]) -> bool {
    if one.is_empty() || other.is_empty() {
        return false;
    }
    if one == other {
        return true;
    }
    let length = one.len().max(other.len());
    let allowed = length / LETTERS_A_MISTAKE;
    length > SHORT_CHARS && one.len().abs_diff(other.len()) <= allowed && is_within(one, other, allowed)
}

/// Whether the edit distance is at most `allowed`: rows that are all beyond it end the search.
fn is_within(one: &[char], other: &[char], allowed: usize) -> bool {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.iter().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        let mut least = left;
        for (slot, there) in row.iter_mut().skip(1).zip(other) {
            let above = *slot;
            let next = (diagonal + usize::from(letter != there)).min(above + 1).min(left + 1);
            (diagonal, left, *slot) = (above, next, next);
            least = least.min(next);
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
        if least > allowed {
            return false;
        }
    }
    row.last().is_some_and(|distance| *distance <= allowed)
}

/// A name that at least `needed` of these look like, itself included.
pub(super) fn model(names: &[Vec<char>], needed: usize) -> Option<&[char]> {
    let step = (names.len() / MODELS).max(1);
    let likes = |model: &Vec<char>| names.iter().filter(|name| are_alike(model, name)).count();
    names.iter().step_by(step).find(|model| likes(model) >= needed).map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variations_of_a_name_look_alike_and_other_names_do_not() {
        let alike = |one: &str, other: &str| are_alike(&plain(one), &plain(other));
        for (one, other) in [
            ("PayPal Support", "paypal_support_17"),
            ("PayPal Support", "PayPaI Supp0rt"),
            ("Elon Musk", "E1on Musk!!"),
            ("crypto.giveaway", "crypto-giveawey"),
            ("Anna 1", "anna 2"),
        ] {
            assert!(alike(one, other), "{one} {other}");
        }
        for (one, other) in [("Anna", "Anne"), ("Maria Lopez", "Mario Gomez"), ("Tom", "Tim"), ("", ""), ("12", "34")] {
            assert!(!alike(one, other), "{one} {other}");
        }
    }

    #[test]
    fn a_model_has_enough_that_look_like_it() {
        let names: Vec<Vec<char>> = ["Anna", "support1", "support 2", "Supp0rt", "s.upport"].map(plain).into();
        assert!(model(&names, 4).is_some());
        assert!(model(&names, 5).is_none());
        assert!(model(&[], 1).is_none());
    }
}
