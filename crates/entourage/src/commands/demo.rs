//! `entourage serve --demo`: its data, settings and banner.

use std::{
    io::Write,
    pin::pin,
    time::{Duration, Instant},
};

use entourage_server::config::{ConfigError, Origin, Raw};
use entourage_service::{Demo, Service, demo_ids};

const CELEBRITY: &str = "feed.celebrity_followers";
/// The demo's celebrity threshold: nobody in it has a hundred thousand followers.
const CELEBRITY_FOLLOWERS: u64 = 2_000;

/// The state of the demo, for the banner and the background posts.
pub(super) struct Loaded {
    said: String,
    /// The store holds the demo's users, who keep posting.
    is_there: bool,
}

/// Lowers the celebrity threshold, unless it is configured.
pub(super) fn settle(raw: &mut Raw) -> Result<(), ConfigError> {
    if raw.iter().any(|(name, value)| name == CELEBRITY && value.origin == Origin::Default) {
        raw.set(CELEBRITY, CELEBRITY_FOLLOWERS.to_string(), Origin::Flag("--demo"))?;
    }
    Ok(())
}

/// Loads the demo into an empty store.
pub(super) async fn load(service: &Service) -> anyhow::Result<Loaded> {
    let began = Instant::now();
    let (said, is_there) = match service.transfer.load_demo().await? {
        Demo::Loaded { users, follows, posts } => {
            let seconds = began.elapsed().as_secs_f64();
            (format!("{users} people with {follows} follows and {posts} posts, loaded in {seconds:.1} s"), true)
        }
        Demo::IsThere => ("loaded by an earlier start".to_owned(), true),
        Demo::NotEmpty => {
            ("not loaded: this store has users of its own; choose an empty folder with --data".to_owned(), false)
        }
    };
    Ok(Loaded { said, is_there })
}

/// Whose feed the banner offers to watch.
fn watched() -> String {
    demo_ids(3).pop().unwrap_or_default()
}

/// Writes a post about once a second, until the server stops.
pub(super) async fn talk(loaded: Option<&Loaded>, service: &Service, stop: impl Future<Output = ()>) {
    if !loaded.is_some_and(|loaded| loaded.is_there) {
        return;
    }
    let mut traffic = match service.transfer.demo_traffic(&watched()).await {
        Ok(traffic) => traffic,
        Err(error) => return tracing::warn!(%error, "nobody of the demo says anything"),
    };
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return,
            () = tokio::time::sleep(Duration::from_millis(traffic.pause_millis())) => {}
        }
        // The author may be erased; store errors are logged elsewhere.
        if let Err(error) = service.transfer.demo_post(&mut traffic).await {
            tracing::debug!(%error, "a post of the demo was not written");
        }
    }
}

pub(super) fn print(loaded: &Loaded, celebrity_followers: u64, base: &str) -> std::io::Result<()> {
    let mut err = std::io::stderr();
    writeln!(err, "  demo   {}", loaded.said)?;
    writeln!(err, "         {CELEBRITY} is {celebrity_followers}: whoever has so many followers is pulled")?;
    if !loaded.is_there {
        return Ok(());
    }
    if let [first, second, third] = demo_ids(3).as_slice() {
        writeln!(
            err,
            "         people: {first}, {second}, {third}\n  \
             try    curl '{base}/api/v1/users/{first}/followers?limit=5'\n         \
             curl {base}/api/v1/users/{second}/is-following/{first}\n         \
             entourage following {third} --server {base}\n         \
             entourage feed {third} --server {base}\n         \
             entourage suggest {third} --server {base}\n         \
             entourage watch {third} --server {base}    # somebody posts about once a second"
        )?;
    }
    Ok(())
}
