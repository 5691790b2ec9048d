//! Imports as a person runs them, and what a store holds afterwards.

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use crate::server_kit::{run, text};

/// Imports and expects this exit code; the report.
pub(crate) fn import(data: &Path, arguments: &[&str], code: i32) -> Value {
    let output = run(&[&["import", "--json", "--data", text(data)], arguments].concat());
    report(&output, code)
}

pub(crate) fn report(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The sorted lines of an export, without its header.
pub(crate) fn exported(data: &Path, what: &str) -> Vec<String> {
    let output = run(&["export", "--data", text(data), what]);
    assert!(output.status.success(), "{output:?}");
    let mut lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().skip(1).map(str::to_owned).collect();
    lines.sort();
    lines
}

pub(crate) fn verify(data: &Path) -> Value {
    report(&run(&["verify", "--json", "--data", text(data)]), 0)
}

/// Runs a program over bytes: what packs a file here is not what unpacks it there.
pub(crate) fn piped(program: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{program:?}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{program:?}");
    output.stdout
}

/// Numbers of a report's total, in this order.
pub(crate) fn numbers<const N: usize>(report: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| report["total"][name].as_u64().unwrap_or_else(|| panic!("{name} of {report}")))
}
