//! The bill of materials of a program: CycloneDX 1.5 without a time and a serial number, so that it is the same every time.

use serde_json::{Value, json};

use super::crates::Crate;

/// What is inside the program beside code.
const DATA: [(&str, &str, &str); 2] = [
    ("realesr-animevideov3", "machine-learning-model", "BSD-3-Clause"),
    ("DejaVu Sans (letters)", "data", "Bitstream-Vera"),
];

/// The document for a program made of these crates; the first is the program.
pub(crate) fn document(crates: &[Crate], triple: &str) -> Result<String, String> {
    let [own, rest @ ..] = crates else { return Err("a program has one crate at least".into()) };
    let licence = |expression: &str| json!([{ "expression": expression }]);
    let component = |c: &Crate| {
        let mut json = json!({
            "type": "library", "bom-ref": reference(&c.name, &c.version), "name": c.name, "version": c.version,
            "licenses": licence(&c.licence),
        });
        json["purl"] = reference(&c.name, &c.version).into();
        if let Some(checksum) = &c.checksum {
            json["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        json
    };
    let data = DATA.map(|(name, kind, id)| {
        json!({ "type": kind, "bom-ref": name, "name": name, "licenses": [{ "license": { "id": id } }] })
    });
    let components: Vec<Value> = rest.iter().map(component).chain(data).collect();
    let uses = |c: &Crate| {
        let on: Vec<String> = c.uses.iter().map(|(name, version)| reference(name, version)).collect();
        json!({ "ref": reference(&c.name, &c.version), "dependsOn": on })
    };
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": reference(&own.name, &own.version), "name": "remaster",
                "version": own.version, "licenses": licence(&own.licence), "purl": reference(&own.name, &own.version),
            },
            "properties": [{ "name": "cargo:target", "value": triple }],
        },
        "components": components,
        "dependencies": crates.iter().map(uses).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(|e| e.to_string())
}

/// An address of a package: what stands for a build in a version has a meaning there.
fn reference(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_crate_is_a_component_and_every_reference_is_one() {
        let one = |name: &str, uses: &[&str]| Crate {
            name: name.into(),
            version: "1.0.0".into(),
            licence: "MIT".into(),
            authors: String::new(),
            folder: "/".into(),
            published: name != "remaster-cli",
            checksum: Some("ab".into()),
            uses: uses.iter().map(|name| ((*name).to_owned(), "1.0.0".to_owned())).collect(),
        };
        let crates = [one("remaster-cli", &["a", "b"]), one("a", &["b"]), one("b", &[])];
        let text = document(&crates, "x86_64-unknown-linux-gnu").unwrap();
        assert_eq!(text, document(&crates, "x86_64-unknown-linux-gnu").unwrap());
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["bomFormat"], &json["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
        let list = json["components"].as_array().unwrap();
        assert_eq!(list.len(), 2 + DATA.len());
        assert_eq!(list[0]["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(reference("ash", "0.38.0+1.3.281"), "pkg:cargo/ash@0.38.0%2B1.3.281");
        assert_eq!(list[0]["hashes"][0]["content"], "ab");
        let mut known: BTreeSet<&str> = list.iter().map(|c| c["bom-ref"].as_str().unwrap()).collect();
        known.insert(json["metadata"]["component"]["bom-ref"].as_str().unwrap());
        for row in json["dependencies"].as_array().unwrap() {
            assert!(known.contains(row["ref"].as_str().unwrap()));
            assert!(row["dependsOn"].as_array().unwrap().iter().all(|r| known.contains(r.as_str().unwrap())));
        }
        assert!(document(&[], "x").is_err());
    }
}
