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
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Http, Self::Resp, Self::Fanout, Self::Jobs];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Resp => "resp",
            Self::Fanout => "fanout",
            Self::Jobs => "jobs",
        }
    }
}

/// One or more roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles([bool; Role::ALL.len()]);

impl Roles {
    pub const ALL: Self = Self([true; Role::ALL.len()]);

    /// From names with commas between; `None` for an unknown one, and for none at all.
    pub fn parse(text: &str) -> Option<Self> {
        let mut roles = Self([false; Role::ALL.len()]);
        for name in text.split(',').map(str::trim) {
            let known = Role::ALL.into_iter().find(|role| role.as_str() == name)?;
            if let Some(slot) = roles.0.get_mut(known as usize) {
                *slot = true;
            }
        }
        Some(roles)
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
        for text in ["", ",", "http,", "HTTP", "job", "http jobs", "http,all"] {
            assert_eq!(Roles::parse(text), None, "{text:?}");
        }
    }
}
