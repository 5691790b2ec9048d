//! What a route demands of a request, as data: the router puts it into the layers of the route, the gate enforces it and
//! the document states it.

use std::{net::IpAddr, time::Duration};

use crate::front::is_this_machine;

/// Who may ask. What the gate lets through, the service still checks: RESP and the command line pass no gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Access {
    /// Without credentials.
    Open,
    /// Without credentials from this machine; an admin from elsewhere.
    Local,
    /// Any credential; what it shows depends on the viewer.
    Anyone,
    /// A credential that names an actor.
    Actor,
    /// The user whom this parameter of the path names, a service, or an admin.
    Own(&'static str),
    /// A service or an admin.
    Service,
    /// An admin.
    Admin,
}

impl Access {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Local => "local",
            Self::Anyone => "anyone",
            Self::Actor => "actor",
            Self::Own(_) => "own",
            Self::Service => "service",
            Self::Admin => "admin",
        }
    }

    /// Whether the document asks for credentials.
    pub(super) const fn needs_credentials(self) -> bool {
        !matches!(self, Self::Open | Self::Local)
    }

    /// Whether a request from this address needs no credentials.
    pub(in crate::http) fn is_open_to(self, address: Option<IpAddr>) -> bool {
        match self {
            Self::Open => true,
            Self::Local => address.is_some_and(is_this_machine),
            _ => false,
        }
    }
}

const BODY_MAX_BYTES: usize = 64 * 1024;
const DEADLINE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Policy {
    pub(in crate::http) access: Access,
    /// How long a request may take until its answer begins.
    pub(in crate::http) deadline: Duration,
    pub(in crate::http) body_max_bytes: usize,
    /// The action under which a request is written to the audit log.
    pub(in crate::http) audit: Option<&'static str>,
    /// Whether `?ticket=` stands for a credential: browsers open streams without headers.
    pub(in crate::http) takes_ticket: bool,
}

impl Policy {
    /// Whatever is for admins is audited.
    pub(in crate::http) const fn new(access: Access) -> Self {
        let audit = if matches!(access, Access::Admin) { Some("admin") } else { None };
        Self { access, deadline: DEADLINE, body_max_bytes: BODY_MAX_BYTES, audit, takes_ticket: false }
    }

    /// For the methods that a path does not have. Strangers are told which ones it has only where they may ask for one.
    pub(in crate::http) fn of_other_methods(policies: &[Self]) -> Self {
        let shared = |is_shared: fn(&Self, &Self) -> bool| {
            policies.first().filter(|first| policies.iter().all(|policy| is_shared(policy, first)))
        };
        let access = shared(|one, other| one.access == other.access).map(|policy| policy.access);
        let audit = shared(|one, other| one.audit == other.audit).and_then(|policy| policy.audit);
        let access = access.filter(|access| !access.needs_credentials()).unwrap_or(Access::Anyone);
        Self { audit, ..Self::new(access) }
    }

    /// Whether nothing may be done that leaves no trace in the audit log.
    pub(in crate::http) fn must_be_audited(&self) -> bool {
        self.access == Access::Admin && self.audit.is_some()
    }
}
