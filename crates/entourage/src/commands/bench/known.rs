//! Existing follows, read from the server before the load begins, for checks that answer yes.

use std::io::Write as _;

use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

use super::{
    draw::{Draw, Question},
    resp, rest,
    wire::Protocol,
};

/// Whose lists are read.
const USERS: usize = 4_000;
const AT_ONCE: usize = 20;
const ENOUGH: usize = 200_000;

pub(super) fn learn(protocol: &Protocol, mut draw: Draw, seed: u64) -> anyhow::Result<Draw> {
    if !draw.wants_known() {
        return Ok(draw);
    }
    let mut random = SmallRng::seed_from_u64(seed);
    let mut connection = protocol.connect()?;
    let mut known = Vec::new();
    for _ in 0..USERS / AT_ONCE {
        let users: Vec<_> = (0..AT_ONCE).map(|_| draw.ids.get(random.random_range(0..draw.ids.count()))).collect();
        let ask = |user: &_| match protocol {
            Protocol::Rest(_) => Question::Following(std::borrow::Cow::clone(user)),
            Protocol::Resp { .. } => Question::Command(vec!["SMEMBERS".into(), format!("following:{user}").into()]),
        };
        connection.ask(&users.iter().map(ask).collect::<Vec<_>>())?;
        for user in &users {
            let (_, targets) = connection.answer_with(|bytes| followed(protocol, bytes))?;
            known.extend(targets.into_iter().map(|target| (user.to_string(), target)));
        }
        if known.len() >= ENOUGH {
            break;
        }
    }
    if known.is_empty() {
        writeln!(
            std::io::stderr(),
            "nobody who was looked at follows anybody: every check will be of a pair by chance"
        )?;
    }
    draw.known = known;
    Ok(draw)
}

fn followed(protocol: &Protocol, answer: &[u8]) -> Vec<String> {
    match protocol {
        Protocol::Resp { .. } => resp::strings(answer),
        Protocol::Rest(_) => {
            let page: serde_json::Value = serde_json::from_slice(rest::body(answer)).unwrap_or_default();
            let rows = page["data"].as_array().map(Vec::as_slice).unwrap_or_default();
            rows.iter().filter_map(|row| Some(row["id"].as_str()?.to_owned())).collect()
        }
    }
}
