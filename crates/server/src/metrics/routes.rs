//! Request metrics by matched route, with handles that are made once.

use std::{collections::HashMap, time::Duration};

use axum::http::{Method, StatusCode};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// One set of metrics per operation, and one for everything else: clients choose paths and methods, and labels must
/// stay few.
pub(crate) struct Routes {
    known: HashMap<&'static str, Vec<(Method, Route)>>,
    unknown: Route,
}

pub(crate) struct Route {
    seconds: Histogram,
    in_flight: Gauge,
    by_class: [Counter; 5],
}

/// A request in flight, until it is answered or dropped.
pub(crate) struct InFlight<'a>(&'a Route);

impl Routes {
    pub(crate) fn new(operations: impl Iterator<Item = (&'static str, Method)>) -> Self {
        let mut known = HashMap::<_, Vec<_>>::new();
        for (path, method) in operations {
            let route = Route::new(path, method.as_str());
            known.entry(path).or_default().push((method, route));
        }
        Self { known, unknown: Route::new("none", "other") }
    }

    pub(crate) fn enter(&self, path: &str, method: &Method) -> InFlight<'_> {
        // HEAD is served by the route of GET.
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let methods = self.known.get(path).map(Vec::as_slice).unwrap_or_default();
        let route = methods.iter().find(|(known, _)| known == method).map_or(&self.unknown, |(_, route)| route);
        route.in_flight.increment(1.0);
        InFlight(route)
    }
}

impl Route {
    fn new(path: &'static str, method: &str) -> Self {
        let method = method.to_owned();
        let by_class = CLASSES.map(|class| {
            counter!(
                "entourage_http_requests_total", "route" => path, "method" => method.clone(), "status" => class
            )
        });
        Self {
            seconds: histogram!("entourage_http_request_seconds", "route" => path, "method" => method.clone()),
            in_flight: gauge!("entourage_http_in_flight", "route" => path, "method" => method),
            by_class,
        }
    }
}

impl InFlight<'_> {
    pub(crate) fn answered(self, status: StatusCode, elapsed: Duration) {
        self.0.seconds.record(elapsed.as_secs_f64());
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = self.0.by_class.get(class) {
            counter.increment(1);
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.decrement(1.0);
    }
}
