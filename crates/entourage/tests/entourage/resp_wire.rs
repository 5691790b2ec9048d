//! How the server answers over RESP, seen from the system: one write for each read; and the first example of the page.

use std::process::Command;

use crate::resp_kit::{Wire, encoded};
use crate::server_kit::{Folder, Serving, command, text, wrapped};

/// Whatever is asked for, and however often what is collected has to be answered in between.
#[test]
fn what_one_read_brings_is_answered_with_one_write() {
    const PIPELINES: usize = 20;
    let strace = Command::new("strace").arg("--version").output();
    assert!(strace.is_ok_and(|output| output.status.success()), "strace is needed; install the package strace");
    let folder = Folder::new();
    let (data, trace) = (folder.join("data"), folder.join("trace"));
    let program = [
        "strace",
        "-f",
        "-qq",
        "-s",
        "16",
        "-o",
        text(&trace),
        "-e",
        "trace=sendto,sendmsg,write,writev",
        env!("CARGO_BIN_EXE_entourage"),
    ];
    let mut serve = wrapped(&program, &["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
    let mut server = Serving::start_as(serve.env("ENTOURAGE_USERS__AUTO_CREATE", "true"));
    let mut wire = Wire::connect(&server.resp);
    let mut bytes = 0;
    for number in 0..PIPELINES {
        let mut lines = vec![format!("ECHO tag-{number:04}")];
        for step in 0..40 {
            lines.push(format!("SISMEMBER following:1 {step}"));
        }
        if number % 2 == 1 {
            lines.extend([
                format!("SADD following:a t{number}"),
                "PING".to_owned(),
                format!("EG.UNFOLLOW a t{number}"),
            ]);
            lines.extend((0..20).map(|step| format!("SISMEMBER following:{step} a")));
        }
        let input: Vec<u8> = lines.iter().flat_map(|line| encoded(line)).collect();
        wire.send(&input);
        assert_eq!(wire.reply().unwrap(), format!("tag-{number:04}"));
        bytes = 14;
        for line in &lines[1..] {
            bytes += wire.reply().unwrap_or_else(|| panic!("{line}")).len() + 2;
        }
    }
    // The tracer does not pass signals on: the process itself is told to stop.
    let info = wire.ask("INFO server");
    let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim();
    assert!(Command::new("kill").args(["-TERM", pid]).status().unwrap().success());
    let (code, said) = server.wait();
    assert_eq!(code, Some(0), "{said}");
    let trace = std::fs::read_to_string(&trace).unwrap();
    let is_answer = |line: &&str| line.contains(r#", "$8\r\ntag-"#) || line.contains(r#", ":"#);
    // What it says about itself is no answer.
    let is_said = |line: &&str| line.contains(" write(1, ") || line.contains(" write(2, ");
    let answers: Vec<&str> = trace.lines().filter(is_answer).filter(|line| !is_said(line)).collect();
    assert_eq!(answers.len(), PIPELINES, "{answers:#?}");
    assert!(answers.iter().all(|line| line.contains("tag-")), "{answers:#?}");
    assert!(answers.last().unwrap().contains(&format!(", {bytes}, ")), "{bytes} bytes\n{answers:#?}");
}

/// The lines of the page's first example, run as they stand on a port that is free.
#[test]
fn the_first_example_of_the_page_works_as_written() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/resp.md")).unwrap();
    let example = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = Folder::new();
    let data = folder.join("data");
    let (serve, asked): (Vec<&str>, Vec<&str>) = example
        .lines()
        .filter(|line| !line.starts_with('#'))
        .partition(|line| line.split_whitespace().any(|word| word == "serve"));
    let [serve] = serve.as_slice() else { panic!("{example}") };
    let words: Vec<&str> = serve.split_whitespace().take_while(|word| *word != "#").collect();
    let (settings, words): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|word| word.contains('='));
    assert_eq!(words, ["entourage", "serve", "--data", "./entourage-data"]);
    let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
    let settings = settings.iter().map(|setting| setting.split_once('=').unwrap());
    let server = Serving::start_as(command.envs(settings));
    let mut wire = Wire::connect(&server.resp);
    assert_eq!(asked.len(), 2, "{example}");
    for line in asked {
        let line = line.strip_prefix("redis-cli -p 7071 ").unwrap_or_else(|| panic!("{line}"));
        assert_eq!(wire.ask(line), ":1", "{line}");
    }
}
