//! The documentation's own examples, run from top to bottom, and its table of codes.

use entourage_model::Code;

use super::server::Server;

const PAGE: &str = include_str!("../../../../../docs/api.md");

#[test]
fn every_example_is_true() {
    let server = Server::start();
    let blocks = PAGE.split("```rest\n").skip(1).map(|block| block.split("```").next().unwrap());
    let mut lines = blocks.flat_map(str::lines);
    let mut examples = 0;
    while let Some(request) = lines.next() {
        let request = request.strip_prefix("> ").unwrap_or_else(|| panic!("{request} is no request"));
        let expected = lines.next().and_then(|line| line.strip_prefix("< "));
        server.check(request, expected.unwrap_or_else(|| panic!("{request} has no answer")));
        examples += 1;
    }
    assert!(examples > 50, "only {examples} examples were found");
}

#[test]
fn every_route_is_listed_with_its_summary() {
    let document = entourage_server::http::document();
    let rows = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, operation)| {
            let path = path.strip_prefix("/api/v1").unwrap_or(path);
            format!("| `{} {path}` | {} |", method.to_uppercase(), operation["summary"].as_str().unwrap())
        })
    });
    let missing: Vec<_> = rows.filter(|row| !PAGE.lines().any(|line| line == row)).collect();
    assert!(missing.is_empty(), "docs/api.md lacks these rows:\n{}", missing.join("\n"));
    let section = PAGE.split("## Routes").nth(1).unwrap().split("\n## ").next().unwrap();
    let listed = section.lines().filter(|line| line.starts_with("| `")).count();
    let described = document["paths"].as_object().unwrap().values().map(|methods| methods.as_object().unwrap().len());
    assert_eq!(listed, described.sum::<usize>(), "docs/api.md lists a route that is not there");
}

#[test]
fn every_code_is_explained_where_its_type_points() {
    for code in Code::ALL {
        let anchor = code.docs_anchor().replace("/docs#", "");
        let row = format!("| <a id=\"{anchor}\"></a>`{}` | {} | ", code.as_str(), code.http_status());
        assert!(PAGE.contains(&row), "{row}");
    }
}
