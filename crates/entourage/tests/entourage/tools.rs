//! Tools that the tests fetch: versions and hashes are in the repository, none of their scripts run, and nothing is left
//! in the system's configuration. Each rule is a function over text, shown to fail on a planted line.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

fn scripts() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts"))
}

/// Name and text of the files in a folder.
fn files(folder: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(scripts().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| (path.display().to_string(), fs::read_to_string(&path).unwrap());
    entries.filter(|path| path.is_file()).map(read).collect()
}

/// Requirements without a version or without a hash, and whatever says where they come from.
fn loose_requirements(lock: &str) -> Vec<String> {
    let joined = lock.replace("\\\n", " ");
    let lines = joined.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let is_loose = |line: &&str| !line.contains("==") || !line.contains("--hash=sha256:") || line.contains("://");
    lines.filter(is_loose).map(str::to_owned).collect()
}

/// Packages without a hash, or with the address they were found at.
fn loose_packages(lock: &Value) -> Vec<String> {
    let packages = lock["packages"].as_object().into_iter().flatten().filter(|(path, _)| !path.is_empty());
    let is_loose = |package: &Value| {
        let is_sha = package["integrity"].as_str().is_some_and(|hash| hash.starts_with("sha512-"));
        !is_sha || !package["resolved"].is_null() || package["link"] == true
    };
    packages.filter(|(_, package)| is_loose(package)).map(|(path, _)| path.clone()).collect()
}

/// Commands that would install something else than the lock files say, or run what they install.
fn loose_installs(script: &str) -> Vec<String> {
    let joined = script.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let is_loose = |line: &&str| {
        let lacks = |flags: &[&str]| flags.iter().any(|flag| !line.contains(flag));
        (line.contains("pip install") && lacks(&["--require-hashes", "--only-binary :all:", "--requirement"]))
            || (line.contains("npm ci") && lacks(&["--ignore-scripts"]))
            || (line.contains("npm install") && lacks(&["--ignore-scripts", "--package-lock-only"]))
            || ["npx ", "pipx ", "cargo install"].iter().any(|word| line.contains(word))
    };
    lines.filter(is_loose).map(str::to_owned).collect()
}

#[test]
fn tools_are_pinned_by_version_and_hash() {
    let tools = files("tools");
    let locks: Vec<_> = tools.iter().filter(|(name, _)| name.ends_with(".txt")).collect();
    assert!(locks.len() >= 4, "{locks:?}");
    for (name, lock) in locks {
        assert_eq!(loose_requirements(lock), [""; 0], "{name}");
        let wanted = fs::read_to_string(name.replace(".txt", ".in")).unwrap();
        assert!(wanted.lines().all(|line| lock.contains(line)), "{name} is not what scripts/lock would write");
    }
    let lock: Value =
        serde_json::from_str(&fs::read_to_string(scripts().join("tools/package-lock.json")).unwrap()).unwrap();
    assert!(lock["packages"].as_object().unwrap().len() > 10);
    assert_eq!(loose_packages(&lock), [""; 0]);
    let wanted: Value =
        serde_json::from_str(&fs::read_to_string(scripts().join("tools/package.json")).unwrap()).unwrap();
    assert_eq!(lock["packages"][""]["dependencies"], wanted["dependencies"], "scripts/lock writes the lock file anew");
}

#[test]
fn scripts_install_what_is_pinned_and_nothing_else() {
    let scripts = files("");
    assert!(scripts.iter().any(|(_, text)| text.contains("pip install")), "the rule no longer sees what it is about");
    for (name, text) in &scripts {
        assert_eq!(loose_installs(text), [""; 0], "{name}");
        // One file tells a package what to do while it is installed, and goes again.
        let is_restored = text.contains("trap restore EXIT");
        assert!(is_restored || !text.contains("/etc/"), "{name} writes to the system's configuration");
    }
}

#[test]
fn what_is_loose_is_found() {
    let hash = "--hash=sha256:00";
    let fine = format!(
        "# a comment\nredis==8.1.0 \\\n    {hash}\nx==1 ; python_version < '3' \\\n    {hash} \\\n    {hash}\n"
    );
    assert_eq!(loose_requirements(&fine), [""; 0]);
    for line in
        ["redis==8.1.0", &format!("redis>=8 {hash}"), &format!("x==1 {hash}\n--index-url https://mirror.example/")]
    {
        assert_eq!(loose_requirements(line).len(), 1, "{line}");
    }
    let packages = |package: Value| loose_packages(&json!({ "packages": { "": {}, "node_modules/x": package } })).len();
    assert_eq!(packages(json!({ "version": "1.0.0", "integrity": "sha512-00" })), 0);
    for package in [
        json!({ "version": "1.0.0" }),
        json!({ "version": "1.0.0", "integrity": "sha1-00" }),
        json!({ "version": "1.0.0", "integrity": "sha512-00", "resolved": "https://mirror.example/x.tgz" }),
    ] {
        assert_eq!(packages(package.clone()), 1, "{package}");
    }
    let fine = "pip install --require-hashes --only-binary :all: \\\n    --requirement lock\nnpm ci --ignore-scripts\n# npx tsc\n";
    assert_eq!(loose_installs(fine), [""; 0]);
    for line in ["pip install redis==8.1.0", "npm install redis", "npm ci", "npx tsc", "cargo install x"] {
        assert_eq!(loose_installs(line), [line]);
    }
}
