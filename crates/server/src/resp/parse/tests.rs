use super::*;

const BOUNDS: Bounds = Bounds { arguments: 8, bulk: 100, command: 200, inline: 64 };

fn words(input: &[u8]) -> Result<(Step, Vec<Vec<u8>>), Broken> {
    let mut parser = Parser::default();
    let step = parser.next(input, BOUNDS)?;
    let bytes = if matches!(step, Step::Inline(_)) { parser.line().to_vec() } else { input.to_vec() };
    let found = match step {
        Step::Command(_) | Step::Inline(_) => {
            parser.spans().iter().map(|span| bytes[span.start as usize..span.end as usize].to_vec()).collect()
        }
        _ => Vec::new(),
    };
    Ok((step, found))
}

#[test]
fn commands_are_found_in_place() {
    let (step, found) = words(b"*2\r\n$3\r\nGET\r\n$0\r\n\r\nrest").unwrap();
    assert_eq!((step, found), (Step::Command(19), vec![b"GET".to_vec(), Vec::new()]));
    assert_eq!(words(b"*0\r\nrest").unwrap().0, Step::Nothing(4));
    assert_eq!(words(b"\r\nrest").unwrap().0, Step::Nothing(2));
}

#[test]
fn lines_have_words_and_quotes() {
    let cases: [(&str, &[&str]); 6] = [
        ("PING\r\n", &["PING"]),
        ("  get   a\tb \n", &["get", "a", "b"]),
        ("set \"a b\" 'c d'\r\n", &["set", "a b", "c d"]),
        ("echo \"\\x41\\n\\\"\\\\\\q\"\r\n", &["echo", "A\n\"\\q"]),
        ("echo 'it\\'s' \"\"\r\n", &["echo", "it's", ""]),
        ("echo \"\\xzz\"\r\n", &["echo", "xzz"]),
    ];
    for (line, wanted) in cases {
        let (step, found) = words(line.as_bytes()).unwrap();
        assert_eq!(step, Step::Inline(line.len()), "{line}");
        assert_eq!(found, wanted.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>(), "{line}");
    }
    for line in ["echo \"a\r\n", "echo 'a\r\n", "echo \"a\"b\r\n", "echo a\"b\"\r\n"] {
        assert_eq!(words(line.as_bytes()), Err(Broken::Quotes), "{line}");
    }
}

#[test]
fn what_is_too_much_or_makes_no_sense_is_said() {
    let cases: [(&[u8], Broken); 15] = [
        (b"*-5\r\n", Broken::ArrayLength),
        (b"*-1\r\n", Broken::ArrayLength),
        (b"*9\r\n", Broken::ArrayLength),
        (b"*2147483647\r\n", Broken::ArrayLength),
        (b"*99999999999999999999\r\n", Broken::ArrayLength),
        (b"*\r\n", Broken::ArrayLength),
        (b"*1x\r\n", Broken::ArrayLength),
        (b"*0000000000000000000001\r\n", Broken::LongNumber),
        (b"*1\rx", Broken::NoLineEnd),
        (b"*1\r\n:5\r\n", Broken::NoBulk(b':')),
        (b"*1\r\n$999999999\r\n", Broken::BulkLength),
        (b"*1\r\n$-1\r\n", Broken::BulkLength),
        (b"*1\r\n$101\r\n", Broken::BulkLength),
        (b"*1\r\n$1\r\nabc", Broken::NoLineEnd),
        (&[b'x'; 65], Broken::LongInline),
    ];
    for (input, wanted) in cases {
        assert_eq!(words(input), Err(wanted), "{}", input.escape_ascii());
    }
    let long = [b"*3\r\n".to_vec(), b"$100\r\n".to_vec(), vec![b'a'; 100], b"\r\n$100\r\n".to_vec()].concat();
    assert_eq!(words(&long), Err(Broken::LongCommand));
}
