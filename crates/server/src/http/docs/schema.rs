//! Schemas on the page: a word with a link where they are used, a table of fields where they are defined.

use serde_json::Value;

use super::page::{add, fields, items, markdown, row, text};

pub(super) fn article(page: &mut String, name: &str, schema: &Value) {
    add(page, format_args!("<article id=\"schema-{name}\"><h3>{name}</h3>{}", markdown(&schema["description"])));
    let forms: Vec<_> = items(&schema["anyOf"]).chain(items(&schema["oneOf"])).collect();
    if schema["properties"].is_null() && forms.is_empty() {
        add(page, format_args!("<p>{}</p>", short(schema)));
    } else {
        page.push_str("<table><tr><th>field</th><th>type</th><th></th></tr>");
        table(page, schema);
        for form in forms {
            page.push_str("<tr><th>or</th></tr>");
            table(page, form);
        }
        page.push_str("</table>");
    }
    page.push_str("</article>");
}

fn table(page: &mut String, schema: &Value) {
    for (name, field) in fields(&schema["properties"]) {
        let optional =
            if items(&schema["required"]).any(|required| required == name) { "" } else { " <small>?</small>" };
        row(page, &format!("<code>{name}</code>{optional}"), &short(field), &markdown(&field["description"]));
    }
}

/// A schema in a few words.
pub(super) fn short(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|target| target.rsplit('/').next()) {
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    for either in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        let parts: Vec<_> = items(&schema[either]).map(short).collect();
        if !parts.is_empty() {
            return if either == "prefixItems" { format!("[{}]", parts.join(", ")) } else { parts.join(" or ") };
        }
    }
    let words: Vec<_> = items(&schema["enum"]).map(|word| format!("<code>{}</code>", text(word))).collect();
    if !words.is_empty() {
        return words.join(", ");
    }
    let kinds: Vec<_> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(text).collect(),
        kind => vec![text(kind)],
    };
    match kinds.join(" or ") {
        list if list == "array" => format!("list of {}", short(&schema["items"])),
        map if map == "object" && schema["additionalProperties"].is_object() => {
            format!("object of {}", short(&schema["additionalProperties"]))
        }
        kinds => kinds,
    }
}
