//! What `entourage serve --demo` loads and says.

use std::{io::Write, time::Instant};

use entourage_service::{Demo, Service, demo_ids};

/// Loads the demo where there is nothing yet, and says what to try.
pub(super) async fn load(service: &Service) -> anyhow::Result<String> {
    let began = Instant::now();
    Ok(match service.load_demo().await? {
        Demo::Loaded { users, follows } => {
            format!("{users} people with {follows} follows, loaded in {:.1} s", began.elapsed().as_secs_f64())
        }
        Demo::IsThere => "loaded by an earlier start".to_owned(),
        Demo::NotEmpty => "not loaded: this store has users of its own; choose an empty folder with --data".to_owned(),
    })
}

pub(super) fn print(said: &str, address: &str) -> std::io::Result<()> {
    let mut err = std::io::stderr();
    writeln!(err, "  demo   {said}")?;
    if let [first, second, third] = demo_ids(3).as_slice() {
        writeln!(
            err,
            "         people: {first}, {second}, {third}\n  \
             try    curl 'http://{address}/api/v1/users/{first}/followers?limit=5'\n         \
             curl http://{address}/api/v1/users/{second}/is-following/{first}\n         \
             entourage following {third} --server http://{address}"
        )?;
    }
    Ok(())
}
