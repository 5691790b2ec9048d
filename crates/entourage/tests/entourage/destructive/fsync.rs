//! The real binary on a disk that fails to make the log durable: nothing is acked that may not stay, and the process
//! ends with a failure. `strace` makes the system calls fail.

use std::{process::Command, time::Duration};

use crate::server_kit::{Client, Folder, Serving, check, text, wrapped};

/// The log's writes come from one thread, and calls are counted for each: a few succeed, then none. Other threads
/// make fewer calls of these than that.
const GOOD_CALLS: usize = 25;

fn check_fault(injections: &[String]) {
    let strace = Command::new("strace").arg("--version").output();
    assert!(strace.is_ok_and(|output| output.status.success()), "strace is needed; install the package strace");
    let folder = Folder::new();
    let data = folder.join("data");
    let trace = folder.join("trace");
    let mut program = vec!["strace", "-f", "-qq", "-o", text(&trace), "-e", "trace=pwritev2,fdatasync"];
    for injection in injections {
        program.extend(["-e", injection]);
    }
    program.push(env!("CARGO_BIN_EXE_entourage"));
    let mut server =
        Serving::start_as(&mut wrapped(&program, &["serve", "--http", "127.0.0.1:0", "--data", text(&data)]));
    let client = Client::new(&server.base);
    let (mut acked, mut refused) = (Vec::new(), 0);
    for number in 0..10_000 {
        // A pause now and then, so that the seal of an idle log is among the calls too.
        if number % 10 == 9 {
            std::thread::sleep(Duration::from_millis(30));
        }
        match client.put_user(&format!("u{number}"), "somebody") {
            Some(heard) if heard.status == 201 => {
                assert_eq!(refused, 0, "a write was acked after one had failed");
                acked.push(number);
            }
            Some(heard) => {
                assert_eq!((heard.status, heard.code()), (503, "unavailable"), "{heard:?}");
                assert!(heard.retry_after.is_some(), "{heard:?}");
                refused += 1;
            }
            None => break,
        }
    }
    let (code, said) = server.wait();
    let calls = std::fs::read_to_string(&trace).unwrap();
    println!("{injections:?}: {} acked, {refused} refused, exit code {code:?}", acked.len());
    assert!(calls.contains("EIO") && calls.contains("(INJECTED)"), "no call failed\n{calls}");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the store takes no more writes") && said.contains("Input/output error"), "{said}");
    assert!(!acked.is_empty() && refused > 0, "{} acked, {refused} refused", acked.len());
    let server = Serving::start(&data);
    let client = Client::new(&server.base);
    for number in &acked {
        assert_eq!(client.get(&format!("/api/v1/users/u{number}")).status, 200, "u{number} was acked and is lost");
    }
    assert_eq!(client.put_user("after", "somebody").unwrap().status, 201);
    drop(server);
    check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
}

#[test]
fn a_failing_durable_write_stops_the_server() {
    check_fault(&[format!("inject=pwritev2:error=EIO:when={GOOD_CALLS}+")]);
}

/// Where the system has no durable writes the log is written and then synced; what fails is the sync.
#[test]
fn a_failing_sync_stops_the_server() {
    check_fault(&[
        "inject=pwritev2:error=EOPNOTSUPP".to_owned(),
        format!("inject=fdatasync:error=EIO:when={GOOD_CALLS}+"),
    ]);
}
