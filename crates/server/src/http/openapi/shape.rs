//! Rewrites schemas into forms that client generators understand, with the same meaning.

use serde_json::{Map, Value, json};

/// What a variant of an enum is called, by `#[schemars(title = "…")]`.
const TITLE: &str = "title";
/// Which values of `type` are its own, by `#[schemars(extend("x-types" = …))]`.
const TYPES: &str = "x-types";
const DISCRIMINATOR: &str = "type";
const SCHEMAS: &str = "#/components/schemas";

/// `null` is no default: a field left out keeps its value, but generators would send `null`.
pub(super) fn without_null_defaults(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| name != "default" || !value.is_null());
            fields.values_mut().for_each(without_null_defaults);
        }
        Value::Array(values) => values.iter_mut().for_each(without_null_defaults),
        _ => {}
    }
}

/// A struct with a flattened enum has fields beside alternatives, and generators drop one of the two. Each alternative
/// becomes its own schema with all fields, discriminated by `type`.
pub(super) fn split_unions(schemas: &mut Map<String, Value>) {
    let mut variants = Map::new();
    for schema in schemas.values_mut() {
        let Some(fields) = schema.as_object_mut().filter(|fields| fields.contains_key("properties")) else { continue };
        let Some(Value::Array(alternatives)) = fields.remove("anyOf") else { continue };
        let (mut one_of, mut mapping) = (Vec::new(), Map::new());
        for alternative in alternatives {
            let (name, types, whole) = whole(fields, alternative);
            let reference = format!("{SCHEMAS}/{name}");
            mapping.extend(types.into_iter().map(|value| (value, Value::from(reference.as_str()))));
            one_of.push(json!({ "$ref": reference }));
            variants.insert(name, whole);
        }
        *schema = json!({
            "oneOf": one_of,
            "discriminator": { "propertyName": DISCRIMINATOR, "mapping": mapping },
        });
    }
    schemas.extend(variants);
}

/// The fields of all and of one alternative together, with its name and types.
fn whole(common: &Map<String, Value>, alternative: Value) -> (String, Vec<String>, Value) {
    let Value::Object(mut own) = alternative else { return Default::default() };
    let name = own.remove(TITLE).and_then(|title| title.as_str().map(str::to_owned)).unwrap_or_default();
    let types = own.remove(TYPES).unwrap_or_default();
    let mut whole = common.clone();
    for (field, value) in own {
        match (whole.get_mut(&field), value) {
            (Some(Value::Object(all)), Value::Object(more)) => all.extend(more),
            (Some(Value::Array(all)), Value::Array(more)) => all.extend(more),
            (_, value) => drop(whole.insert(field, value)),
        }
    }
    let mut whole = Value::Object(whole);
    whole["properties"][DISCRIMINATOR] = json!({ "type": "string", "enum": types });
    let types = types.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    (name, types, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_no_default_and_a_property_of_that_name_stays() {
        let mut schema =
            json!({ "properties": { "a": { "type": "boolean", "default": null }, "b": { "default": 1 } } });
        without_null_defaults(&mut schema);
        assert_eq!(schema, json!({ "properties": { "a": { "type": "boolean" }, "b": { "default": 1 } } }));
    }

    #[test]
    fn each_alternative_has_all_fields() {
        let alternative = |name: &str, field: &str| json!({ "type": "object", TITLE: name, TYPES: [format!("{field}.made")], "properties": { field: {} }, "required": [field] });
        let event = json!({
            "type": "object",
            "properties": { "type": { "type": "string" }, "at": {} },
            "required": ["type", "at"],
            "anyOf": [alternative("One", "a"), alternative("Other", "b")],
        });
        let mut schemas = Map::from_iter([("Event".to_owned(), event), ("Id".to_owned(), json!({ "anyOf": [] }))]);
        split_unions(&mut schemas);
        let wanted = json!({
            "Event": {
                "oneOf": [{ "$ref": "#/components/schemas/One" }, { "$ref": "#/components/schemas/Other" }],
                "discriminator": { "propertyName": "type", "mapping": {
                    "a.made": "#/components/schemas/One",
                    "b.made": "#/components/schemas/Other",
                } },
            },
            "Id": { "anyOf": [] },
            "One": {
                "type": "object",
                "properties": { "type": { "type": "string", "enum": ["a.made"] }, "at": {}, "a": {} },
                "required": ["type", "at", "a"],
            },
            "Other": {
                "type": "object",
                "properties": { "type": { "type": "string", "enum": ["b.made"] }, "at": {}, "b": {} },
                "required": ["type", "at", "b"],
            },
        });
        assert_eq!(Value::Object(schemas), wanted);
    }
}
