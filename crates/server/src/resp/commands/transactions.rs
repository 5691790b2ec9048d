//! `MULTI EXEC DISCARD WATCH UNWATCH`: reads that are answered one after the other.

use crate::resp::{
    args::Args,
    encode::Out,
    fail::Done,
    session::{Admitted, Session},
    table::{Run, commands},
};

commands! {
    DISCARD "DISCARD" 1 Frame None Transactions ""
        "Forgets what was queued"
        Run::Frame { enter: discard, aborts_if_misused: false };
    EXEC "EXEC" 1 Frame None Transactions ""
        "Answers what was queued, one after the other; others may write in between"
        Run::Frame { enter: exec, aborts_if_misused: true };
    MULTI "MULTI" 1 Frame None Transactions ""
        "Queues what follows until `EXEC`; a write is an error, and nothing is answered then; `WATCH` is one, too"
        Run::Frame { enter: multi, aborts_if_misused: false };
    UNWATCH "UNWATCH" 1 Plain None Transactions ""
        "Nothing is watched"
        Run::Now(unwatch);
    WATCH "WATCH" -2 Frame All Transactions "key …"
        "An error: there are no transactions with writes"
        Run::Frame { enter: watch, aborts_if_misused: false };
}

fn multi(session: &mut Session) -> Done<Admitted> {
    if session.transaction.is_some() {
        return Ok(Admitted::OutOfPlace("ERR MULTI calls can not be nested"));
    }
    session.transaction = Some(Box::default());
    Ok(Admitted::Ok)
}

fn exec(session: &mut Session) -> Done<Admitted> {
    if session.transaction.is_some() { Ok(Admitted::Exec) } else { Err("ERR EXEC without MULTI".into()) }
}

fn discard(session: &mut Session) -> Done<Admitted> {
    session.transaction.take().map(|_| Admitted::Ok).ok_or("ERR DISCARD without MULTI".into())
}

fn watch(session: &mut Session) -> Done<Admitted> {
    if session.transaction.is_some() {
        return Ok(Admitted::OutOfPlace("ERR WATCH inside MULTI is not allowed"));
    }
    Err("ERR WATCH is not supported: MULTI takes reads only, and a write is atomic by itself".into())
}

fn unwatch(_: &mut Session, _: Args<'_>, out: &mut Out) -> Done {
    out.ok();
    Ok(())
}
