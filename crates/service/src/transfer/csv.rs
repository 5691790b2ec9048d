//! Fields of CSV as they are written: in quotes only where something in them needs it.

pub(crate) fn put(line: &mut String, text: &str) {
    if text.contains(['"', ',', '\n', '\r']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}
