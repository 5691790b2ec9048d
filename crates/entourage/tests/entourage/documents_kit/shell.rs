//! One bash that keeps its variables, aliases and jobs from command to command.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Shell {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    mark: String,
}

/// What a command finds in its environment.
pub(crate) type Variables = Vec<(&'static str, String)>;

/// Nothing of this process's own settings.
pub(crate) fn clear_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ENTOURAGE_")) {
        command.env_remove(name);
    }
    command.env_remove("RUST_LOG");
}

impl Shell {
    pub(crate) fn start(folder: &Path, variables: &Variables) -> Self {
        let mut command = Command::new("bash");
        command.args(["--norc", "--noprofile"]).current_dir(folder).process_group(0);
        clear_settings(&mut command);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n') {
                let line = String::from_utf8_lossy(&line.unwrap()).into_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mark = format!("-- {:032x}", rand::random::<u128>());
        let mut shell = Self { child, input, lines, mark };
        shell.run("exec 2>&1; shopt -s expand_aliases");
        shell
    }

    /// The exit code of a command, and what it printed.
    pub(crate) fn run(&mut self, command: &str) -> (i32, String) {
        // A command must not read what comes after it.
        writeln!(self.input, "{{ {command}\n}} </dev/null; printf '\\n%s %s\\n' '{}' $?", self.mark).unwrap();
        let mut printed = Vec::new();
        loop {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{command}\ndoes not end: {printed:?}"));
            if let Some(code) = line.strip_prefix(&self.mark) {
                return (code.trim().parse().unwrap(), printed.join("\n"));
            }
            printed.push(line);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Its jobs are of its own group.
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).status();
        let _ = self.child.wait();
    }
}
