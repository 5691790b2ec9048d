//! The document as one HTML page, made from nothing but the document.

use std::fmt::Write;

use serde_json::Value;

use super::schema;

pub(super) fn render(document: &Value, style: &str) -> String {
    let title = text(&document["info"]["title"]);
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} API</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><style>{style}</style></head><body>"
    );
    navigation(&mut page, document);
    add(
        &mut page,
        format_args!(
            "<main><h1>{title} API <small>{}</small></h1>{}<p><a href=\"/openapi.json\">OpenAPI document</a></p>",
            text(&document["info"]["version"]),
            markdown(&document["info"]["description"]),
        ),
    );
    for tag in items(&document["tags"]) {
        let name = &tag["name"];
        add(&mut page, format_args!("<h2>{}</h2>{}", text(name), markdown(&tag["description"])));
        operations(document, name).for_each(|(path, method, operation)| {
            operation_article(&mut page, document, path, method, operation);
        });
    }
    codes(&mut page, document);
    page.push_str("<h2 id=\"schemas\">Schemas</h2>");
    for (name, described) in fields(&document["components"]["schemas"]) {
        schema::article(&mut page, name, described);
    }
    page.push_str("</main></body></html>");
    page
}

fn navigation(page: &mut String, document: &Value) {
    page.push_str("<nav>");
    for tag in items(&document["tags"]) {
        add(page, format_args!("<h2>{}</h2>", text(&tag["name"])));
        for (_, _, operation) in operations(document, &tag["name"]) {
            add(page, format_args!("<a href=\"#{0}\">{0}</a>", text(&operation["operationId"])));
        }
    }
    page.push_str("<h2>Reference</h2><a href=\"#codes\">Codes</a><a href=\"#schemas\">Schemas</a></nav>");
}

fn operations<'a>(document: &'a Value, tag: &'a Value) -> impl Iterator<Item = (&'a str, &'a str, &'a Value)> {
    fields(&document["paths"])
        .flat_map(|(path, methods)| fields(methods).map(move |(method, operation)| (path, method, operation)))
        .filter(move |(_, _, operation)| operation["tags"][0] == *tag)
}

fn operation_article(page: &mut String, document: &Value, path: &str, method: &str, operation: &Value) {
    add(
        page,
        format_args!(
            "<article id=\"{id}\"><h3><span class=\"method\">{method}</span><code>{path}</code></h3>\
             <p><b>{summary}</b>. <small>Access: {access}{audit}</small></p>{about}",
            id = text(&operation["operationId"]),
            method = method.to_ascii_uppercase(),
            path = escape(path),
            summary = text(&operation["summary"]),
            access = text(&operation["x-access"]),
            audit = operation["x-audit"].as_str().map(|action| format!("; audited as {action}")).unwrap_or_default(),
            about = markdown(&operation["description"]),
        ),
    );
    page.push_str("<table><tr><th>sent</th><th>as</th><th></th></tr>");
    for parameter in items(&operation["parameters"]) {
        let parameter = resolve(document, parameter);
        let place = format!("{} <code>{}</code>", text(&parameter["in"]), text(&parameter["name"]));
        row(page, &place, &schema::short(&parameter["schema"]), &markdown(&parameter["description"]));
    }
    for (media, body) in fields(&operation["requestBody"]["content"]) {
        let required = if operation["requestBody"]["required"] == true { "" } else { "may be left out" };
        row(page, "body", &schema::short(&body["schema"]), &format!("<code>{media}</code> {required}"));
    }
    page.push_str("</table><table><tr><th>answer</th><th>as</th><th></th></tr>");
    for (status, response) in fields(&operation["responses"]) {
        let bodies = fields(&response["content"]).map(|(_, body)| schema::short(&body["schema"]));
        row(page, status, &bodies.collect::<Vec<_>>().join("<br>"), &markdown(&response["description"]));
    }
    page.push_str("</table></article>");
}

fn codes(page: &mut String, document: &Value) {
    page.push_str(
        "<h2 id=\"codes\">Codes</h2><table><tr><th>code</th><th>status</th><th>when</th><th>what to do</th></tr>",
    );
    for code in items(&document["x-codes"]) {
        let anchor = code["anchor"].as_str().and_then(|anchor| anchor.split('#').nth(1)).unwrap_or_default();
        add(
            page,
            format_args!(
                "<tr id=\"{}\"><td><code>{}</code><br><small>{}</small></td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(anchor),
                text(&code["code"]),
                text(&code["title"]),
                code["status"],
                markdown(&code["meaning"]),
                markdown(&code["remedy"]),
            ),
        );
    }
    page.push_str("</table>");
}

pub(super) fn row(page: &mut String, first: &str, second: &str, third: &str) {
    add(page, format_args!("<tr><td>{first}</td><td>{second}</td><td>{third}</td></tr>"));
}

/// Writing into text cannot fail.
pub(super) fn add(page: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(arguments);
}

fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"].as_str().and_then(|target| document.pointer(target.strip_prefix('#')?));
    target.unwrap_or(value)
}

pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn fields(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

pub(super) fn text(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default())
}

/// Paragraphs, and code in backticks.
pub(super) fn markdown(value: &Value) -> String {
    let Some(source) = value.as_str() else { return String::new() };
    let paragraph = |paragraph: &str| {
        let pieces = paragraph.split('`').enumerate();
        let pieces = pieces
            .map(|(at, piece)| if at % 2 == 1 { format!("<code>{}</code>", escape(piece)) } else { escape(piece) });
        format!("<p>{}</p>", pieces.collect::<String>())
    };
    source.split("\n\n").map(paragraph).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_of_the_document_cannot_become_markup() {
        assert_eq!(text(&json!("<a href=\"x\">&")), "&lt;a href=&quot;x&quot;&gt;&amp;");
        assert_eq!(markdown(&json!("a `<b>` c\n\nd")), "<p>a <code>&lt;b&gt;</code> c</p><p>d</p>");
    }

    #[test]
    fn every_code_and_operation_has_an_anchor_and_every_link_a_target() {
        let document = crate::http::document();
        let page = render(&document, "");
        for code in entourage_model::Code::ALL {
            let anchor = code.docs_anchor().replace("/docs#", "");
            assert_eq!(page.matches(&format!("id=\"{anchor}\"")).count(), 1, "{anchor}");
        }
        let links: Vec<_> = page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(links.len() > 40);
        for target in links {
            assert_eq!(page.matches(&format!("id=\"{target}\"")).count(), 1, "{target}");
        }
        assert!(!page.contains("http://") && !page.contains("src="), "the page loads something");
    }
}
