//! What a server is there for.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers HTTP.
    Http,
    /// Answers RESP.
    Resp,
    /// Keeps inboxes and delivers posts to them.
    Fanout,
    /// Does jobs and scheduled tasks.
    Jobs,
    /// Answers reads and writes nothing; its store may be a standby.
    Read,
}

impl Role {
    pub const ALL: [Self; 5] = [Self::Http, Self::Resp, Self::Fanout, Self::Jobs, Self::Read];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Resp => "resp",
            Self::Fanout => "fanout",
            Self::Jobs => "jobs",
            Self::Read => "read",
        }
    }
}

/// One or more roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles([bool; Role::ALL.len()]);

impl Roles {
    /// Everything that a server of its own does.
    pub const ALL: Self = Self([true, true, true, true, false]);

    /// From names with commas between; `None` for an unknown one, for none at all, and for `read` with a role that writes.
    /// `read` alone is on both fronts.
    pub fn parse(text: &str) -> Option<Self> {
        let mut roles = Self([false; Role::ALL.len()]);
        for name in text.split(',').map(str::trim) {
            let known = Role::ALL.into_iter().find(|role| role.as_str() == name)?;
            roles.add(known);
        }
        if roles.has(Role::Read) && !roles.has(Role::Http) && !roles.has(Role::Resp) {
            roles.add(Role::Http);
            roles.add(Role::Resp);
        }
        let writes = roles.has(Role::Fanout) || roles.has(Role::Jobs);
        (!(roles.has(Role::Read) && writes)).then_some(roles)
    }

    fn add(&mut self, role: Role) {
        if let Some(slot) = self.0.get_mut(role as usize) {
            *slot = true;
        }
    }

    pub fn has(self, role: Role) -> bool {
        self.0.get(role as usize).copied().unwrap_or_default()
    }

    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.has(*role))
    }
}

impl Default for Roles {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Role::as_str).collect();
        formatter.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_read_back_and_unknown_ones_are_refused() {
        assert_eq!(Roles::parse("http,resp,fanout,jobs"), Some(Roles::ALL));
        let some = Roles::parse(" jobs, http ").unwrap();
        assert_eq!((some.to_string().as_str(), some.has(Role::Resp)), ("http,jobs", false));
        assert_eq!(Roles::parse("read").unwrap().to_string(), "http,resp,read");
        assert_eq!(Roles::parse("read,resp").unwrap().to_string(), "resp,read");
        assert!(!Roles::ALL.has(Role::Read));
        for text in ["", ",", "http,", "HTTP", "job", "http jobs", "http,all", "read,jobs", "fanout,read"] {
            assert_eq!(Roles::parse(text), None, "{text:?}");
        }
    }
}
