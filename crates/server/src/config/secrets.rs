//! Removes secrets from text that is printed: `config print`, errors, logs.

/// Parameters of a URL that may be shown; the value of any other may be a secret.
const OPEN_PARAMETERS: &[&str] = &[
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "load_balance_hosts",
    "port",
    "sslmode",
    "sslnegotiation",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];
/// The prefix of service keys; see `auth::keys`.
const SERVICE_KEY: &str = "eg_";
const HIDDEN: &str = "…";

/// A URL without its password and secret parameters, or any text without service keys. If it is unclear which part is
/// the password, only the scheme is shown.
pub fn without_secrets(text: &str) -> String {
    let text = match text.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", address(rest).unwrap_or_else(|| HIDDEN.to_owned())),
        None if has_secret_word(text) => HIDDEN.to_owned(),
        None => text.to_owned(),
    };
    without_keys(&text)
}

/// `user:password@host/path?query`, with `@` and `?` at most once and in this order.
fn address(rest: &str) -> Option<String> {
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let (login, place) = place.split_once('@').map_or((None, place), |(login, place)| (Some(login), place));
    let is_plain = |part: &str| !part.contains(['@', '?', '#']);
    if !is_plain(place) || !query.is_none_or(is_plain) || login.is_some_and(|login| login.contains('/')) {
        return None;
    }
    let mut shown = String::new();
    if let Some(login) = login {
        let (user, password) = login.split_once(':').map_or((login, None), |(user, rest)| (user, Some(rest)));
        shown = format!("{user}{}@", password.map_or(String::new(), |_| format!(":{HIDDEN}")));
    }
    shown.push_str(place);
    if let Some(query) = query {
        let pairs: Vec<String> = query.split('&').map(parameter).collect();
        shown.push('?');
        shown.push_str(&pairs.join("&"));
    }
    Some(shown)
}

fn parameter(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if OPEN_PARAMETERS.contains(&name) => pair.to_owned(),
        Some((name, _)) => format!("{name}={HIDDEN}"),
        None => HIDDEN.to_owned(),
    }
}

/// The key-value form of a PostgreSQL address, which is not supported here.
fn has_secret_word(text: &str) -> bool {
    text.to_ascii_lowercase().contains("password")
}

fn without_keys(text: &str) -> String {
    let is_digit = |letter: char| letter.is_ascii_hexdigit();
    let mut parts = text.split(SERVICE_KEY);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(is_digit);
        shown.push_str(SERVICE_KEY);
        // Too short for a key.
        let (digits, rest) = part.split_at(part.len() - rest.len());
        shown.push_str(if digits.len() < 16 { digits } else { HIDDEN });
        shown.push_str(rest);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_a_password_is_shown() {
        for (text, shown) in [
            ("postgres://me:word@host:5432/db", "postgres://me:…@host:5432/db"),
            ("postgres://me@host/db", "postgres://me@host/db"),
            ("postgres://host/db", "postgres://host/db"),
            ("postgres://host/db?user=me&password=word", "postgres://host/db?user=me&password=…"),
            ("postgres:///db?host=/run/pg&sslmode=require", "postgres:///db?host=/run/pg&sslmode=require"),
            ("postgres://me@host/db?PASSWORD=word&pass%77ord=word", "postgres://me@host/db?PASSWORD=…&pass%77ord=…"),
            ("postgres://me@host/db?sslpassword=word&word", "postgres://me@host/db?sslpassword=…&…"),
            ("postgres://me:wo:rd@host/db?options=-c%20x=word", "postgres://me:…@host/db?options=…"),
            // Which part is the password cannot be told.
            ("postgres://me:p@ss:word@host:5432/db", "postgres://…"),
            ("postgres://host/db?password=a@b:word", "postgres://…"),
            ("postgres://me:wo?rd@host/db", "postgres://…"),
            ("postgres://me:wo/rd@host/db", "postgres://…"),
            ("postgres://me:wo#rd@host/db", "postgres://me:…@host/db"),
            ("host=a password=word:1", "…"),
            ("127.0.0.1:7070", "127.0.0.1:7070"),
            ("embedded:", "embedded:"),
        ] {
            assert_eq!(without_secrets(text), shown, "{text}");
            assert!(!without_secrets(text).contains("word:") && !without_secrets(text).ends_with("word"), "{text}");
        }
    }

    #[test]
    fn service_keys_are_not_shown() {
        let key = "0123456789abcdef".repeat(4);
        assert_eq!(without_secrets(&format!("web eg_{key} service")), "web eg_… service");
        assert_eq!(without_secrets(&format!("eg_{key},eg_{key}x")), "eg_…,eg_…x");
        assert_eq!(without_secrets("leg_1, eg_"), "leg_1, eg_");
    }
}
