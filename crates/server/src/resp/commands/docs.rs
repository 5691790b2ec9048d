//! The table as clients see it: `COMMAND` and `EG.HELP`.

use super::{integer, no_subcommand};
use crate::resp::{
    args::Args,
    encode::Out,
    fail::{Done, Fail, SYNTAX},
    key::FAMILIES,
    session::Session,
    table::{COMMANDS, Command, Group, Keys, Run, commands, find},
};

commands! {
    COMMAND "COMMAND" -1 Plain None Server "[COUNT | LIST | INFO [name …] | DOCS [name …] | GETKEYS command …]"
        "The commands of this table"
        Run::Now(command);
    HELP "EG.HELP" -1 Plain None Own "[name …]"
        "A line for each command"
        Run::Now(help);
}

const SINCE: &str = "0.1.0";

fn named(name: &[u8]) -> Option<&'static Command> {
    find(name).and_then(|index| COMMANDS.get(index))
}

fn help(_: &mut Session, args: Args<'_>, out: &mut Out) -> Done {
    let mut lines = Vec::new();
    if args.len() == 1 {
        lines.push("Keys".to_owned());
        lines.extend(FAMILIES.iter().map(|(key, kind, value)| format!("  {key}  ({kind}) {value}")));
    }
    for group in Group::ALL {
        let asked = |spec: &&Command| args.len() == 1 || args.rest(1).any(|name| spec.is_named(name));
        let mut specs = COMMANDS.iter().filter(|spec| spec.group == group).filter(asked).peekable();
        if specs.peek().is_some() {
            lines.push(group.title().to_owned());
        }
        for spec in specs {
            lines.push(format!("  {} {}", spec.name, spec.syntax).trim_end().to_owned());
            lines.push(format!("      {}", spec.summary));
        }
    }
    out.array(lines.len());
    lines.iter().for_each(|line| out.text(line));
    Ok(())
}

fn command(_: &mut Session, args: Args<'_>, out: &mut Out) -> Done {
    if args.len() == 1 {
        out.array(COMMANDS.len());
        COMMANDS.iter().for_each(|spec| info(spec, out));
    } else if args.is(1, "COUNT") && args.len() == 2 {
        out.count(COMMANDS.len());
    } else if args.is(1, "LIST") {
        if args.len() > 2 {
            return Err(SYNTAX.into());
        }
        out.array(COMMANDS.len());
        COMMANDS.iter().for_each(|spec| out.text(&spec.name.to_ascii_lowercase()));
    } else if args.is(1, "INFO") {
        let found = asked(args);
        out.array(found.len());
        for spec in found {
            match spec {
                Some(spec) => info(spec, out),
                None => out.null(),
            }
        }
    } else if args.is(1, "DOCS") {
        let found: Vec<_> = asked(args).into_iter().flatten().collect();
        out.map(found.len());
        found.into_iter().for_each(|spec| docs(spec, out));
    } else if args.is(1, "GETKEYS") && args.len() > 2 {
        return keys(args, out);
    } else {
        return Err(no_subcommand(args, &["COUNT", "GETKEYS"]));
    }
    Ok(())
}

/// The commands that are named, or all.
fn asked(args: Args<'_>) -> Vec<Option<&'static Command>> {
    if args.len() == 2 {
        return COMMANDS.iter().map(Some).collect();
    }
    args.rest(2).map(named).collect()
}

fn info(spec: &Command, out: &mut Out) {
    out.array(10);
    out.text(&spec.name.to_ascii_lowercase());
    out.integer(spec.arity.into());
    // The positions of its keys depend on its words.
    let movable = (spec.keys == Keys::Counted).then_some(&"movablekeys");
    let flags = spec.flags();
    out.set(flags.len() + usize::from(movable.is_some()));
    flags.iter().chain(movable).for_each(|flag| out.simple(flag));
    for number in spec.keys.positions() {
        out.integer(number.into());
    }
    // Categories, tips, key specifications and subcommands: none.
    out.set(0);
    (0..3).for_each(|_| out.array(0));
}

fn docs(spec: &Command, out: &mut Out) {
    out.text(&spec.name.to_ascii_lowercase());
    let summary = format!("{} — {}", format!("{} {}", spec.name, spec.syntax).trim_end(), spec.summary);
    let rows = [("summary", summary.as_str()), ("since", SINCE), ("group", spec.group.as_str())];
    out.map(rows.len());
    for (name, value) in rows {
        out.text(name);
        out.text(value);
    }
}

fn keys(args: Args<'_>, out: &mut Out) -> Done {
    let spec = named(args.get(2)).ok_or(Fail::from("ERR Invalid command specified"))?;
    let words: Vec<&[u8]> = args.rest(2).collect();
    if !spec.takes(words.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let keys: &[&[u8]] = match spec.keys {
        Keys::Counted => {
            let count = words.get(1).and_then(|count| usize::try_from(integer(count).ok()?).ok());
            let keys = count.filter(|count| *count > 0).and_then(|count| words.get(2..count.checked_add(2)?));
            keys.ok_or(Fail::from("ERR Invalid arguments specified for command"))?
        }
        Keys::None => return Err("ERR The command has no key arguments".into()),
        Keys::First => words.get(1..2).unwrap_or_default(),
        Keys::All => words.get(1..).unwrap_or_default(),
    };
    out.array(keys.len());
    keys.iter().for_each(|key| out.bulk(key));
    Ok(())
}
