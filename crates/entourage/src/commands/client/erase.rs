//! `erase`: erases a user through a running server, or in a data folder that no server has open.

use clap::Args;
use entourage_model::{Error, UserId};
use entourage_server::{
    config::Settings,
    wire::{Wired, wire},
};
use entourage_service::Call;
use serde_json::{Value, json};
use ureq::http::Method;

use super::{
    connection::{Connection, part},
    table,
};
use crate::{
    commands::{import::in_use, offline, progress},
    settings::DataArguments,
};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The user.
    id: String,
    /// Leave no byte of them on the disk, either: all events up to now go with it.
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    data: DataArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { id, now, connection, data } = arguments;
    let spinner = progress::spinner("erasing");
    let answer = if data.is_given() { offline(id, *now, data) } else { ask(id, *now, connection) };
    spinner.finish_and_clear();
    connection.print(&answer?, table::fields)
}

fn ask(id: &str, now: bool, connection: &Connection) -> anyhow::Result<Value> {
    let started = connection.ask(Method::DELETE, &format!("/users/{}", part(id)), None)?;
    if now {
        connection.ask_patiently("/admin/erase-now", None)?;
    }
    Ok(json!({ "id": id, "erased": true, "job": started["job"]["id"], "off_the_disk": now }))
}

fn offline(id: &str, now: bool, data: &DataArguments) -> anyhow::Result<Value> {
    let settings = Settings::check(&data.raw()?)?;
    let user = UserId::try_from(id)?;
    if settings.store_url.starts_with("memory:") {
        return Err(Error::invalid("store.url is memory:, where nobody is left when no server runs").into());
    }
    if settings.store_url == "embedded:" {
        offline::existing(&settings.data_dir, "--data")?;
    }
    offline::block_on(async {
        let Wired { store, service, .. } = wire(&settings).await.map_err(in_use)?;
        let call = Call::default();
        let erased = async {
            let job = service.jobs.erase(&call, &user).await?.job;
            while service.jobs.work().await? {}
            if now {
                service.jobs.erase_now(&call).await?;
            }
            Ok::<_, Error>(job)
        };
        let erased = erased.await;
        store.close().await?;
        let job = erased?.id.to_string();
        Ok(json!({ "id": id, "erased": true, "job": job, "off_the_disk": now }))
    })
}
