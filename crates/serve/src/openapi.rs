//! The description of the API for programs, made of the same lists that requests are checked with.

use axum::Json;
use remaster::{Color, Deinterlace};
use serde_json::{Map, Value, json};

use crate::input::{FORMATS, MODELS, NAMES, QUALITIES, SEEDS, WINDOWS};

/// A schema of this name.
fn of(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn text() -> Value {
    json!({"type": "string"})
}

/// What may be missing, or null.
fn maybe(schema: &Value) -> Value {
    match schema.get("type").and_then(Value::as_str) {
        Some(kind) => {
            let mut both = schema.clone();
            both["type"] = json!([kind, "null"]);
            both
        }
        None => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

fn list_of(schema: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["results"],
        "properties": {
            "results": {"type": "array", "items": schema},
            "next": maybe(&text()),
            "previous": maybe(&text()),
        },
    })
}

/// An object with these fields, all of which are there.
fn object(fields: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "required": names, "properties": properties})
}

/// The schema of the input of a job.
fn input() -> Value {
    let number = |least: f64, most: f64| json!({"type": "number", "minimum": least, "maximum": most});
    let whole = |[least, most]: [u64; 2]| json!({"type": "integer", "minimum": least, "maximum": most});
    let one_of = |words: &[&str]| json!({"type": "string", "enum": words});
    let keep = one_of(&["refuse", "keep"]);
    let modes =
        [Deinterlace::Auto, Deinterlace::On, Deinterlace::Double, Deinterlace::Ivtc, Deinterlace::Off];
    let schema = |name: &str| match name {
        "model_variant" => one_of(&MODELS.map(|(name, _)| name)),
        "seed" => whole(SEEDS),
        "strength" | "softness" => number(0.0, 1.0),
        "window" => whole(WINDOWS),
        "color" => one_of(&Color::ALL.map(Color::name)),
        "deinterlace" => json!({"enum": modes.map(|mode| serde_json::to_value(mode).unwrap_or_default())}),
        "hdr" | "damaged" => keep.clone(),
        "output_format" => one_of(&FORMATS),
        "output_quality" => whole(QUALITIES),
        "lossless" => json!({"type": "boolean"}),
        "audio" => one_of(&["copy", "none"]),
        _ => text(),
    };
    let about = |name: &str| match name {
        "media" => {
            "`urls.get` of an upload, a path below an allowed folder, a data: URL, or an address on an allowed host"
        }
        "resolution" => "1080 (short side), 2x, 1920x1080, 720p, 4k, 8k",
        "start" | "end" => "seconds, or [HH:]MM:SS[.m]",
        "fps" => "frames per second of pictures",
        "output_quality" => "of encoders with constant quality: 80 looks like the original",
        _ => "as the option of the command line",
    };
    let described = |name: &str| {
        let mut schema = schema(name);
        schema["description"] = json!(about(name));
        (name.to_owned(), maybe(&schema))
    };
    let mut properties: Map<String, Value> = NAMES.iter().map(|name| described(name)).collect();
    properties["media"] = json!({"type": "string", "description": about("media")});
    json!({"type": "object", "required": ["media"], "properties": properties, "additionalProperties": false})
}

fn schemas() -> Value {
    let (number, whole, flag) =
        (json!({"type": "number"}), json!({"type": "integer"}), json!({"type": "boolean"}));
    let time = json!({"type": "string", "format": "date-time"});
    let any = json!({"type": "object"});
    let asked = |with_version: bool| {
        let mut properties = json!({
            "input": of("Input"),
            "webhook": maybe(&text()),
            "webhook_completed": maybe(&text()),
            "webhook_events_filter": maybe(&json!({"type": "array", "maxItems": 4, "items": {"enum": ["start", "output", "logs", "completed"]}})),
            "stream": {},
        });
        let mut required = vec!["input"];
        if with_version {
            properties["version"] = json!({"type": "string", "description": "a model: anime, remaster/3b"});
            required.push("version");
        }
        json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
    };
    let look = |more: &[(&str, Value)]| {
        let mut properties = json!({"version": text(), "input": of("Input")});
        more.iter().for_each(|(name, schema)| properties[*name] = schema.clone());
        json!({"type": "object", "required": ["version", "input"], "properties": properties, "additionalProperties": false})
    };
    json!({
        "Problem": object(&[("title", text()), ("detail", text()), ("status", whole.clone()), ("kind", text())]),
        "Input": input(),
        "NewPrediction": asked(true),
        "NewPredictionOfModel": asked(false),
        "Prediction": object(&[
            ("id", text()), ("model", text()), ("version", text()), ("input", any.clone()), ("output", maybe(&text())),
            ("status", json!({"enum": ["starting", "processing", "succeeded", "failed", "canceled"]})),
            ("created_at", time.clone()), ("started_at", maybe(&time)), ("completed_at", maybe(&time)),
            ("error", maybe(&text())), ("error_kind", maybe(&text())), ("logs", text()), ("metrics", any.clone()),
            ("urls", any.clone()), ("name", text()), ("paused", flag.clone()), ("position", maybe(&whole)),
            ("progress", maybe(&any)), ("picture", maybe(&any)), ("file", maybe(&text())), ("output_name", text()),
            ("expires_at", maybe(&time)), ("saved", maybe(&any)),
        ]),
        "File": object(&[
            ("id", text()), ("name", text()), ("content_type", text()), ("size", whole.clone()), ("etag", text()),
            ("checksums", any.clone()), ("metadata", any.clone()), ("created_at", time.clone()),
            ("expires_at", maybe(&time)), ("urls", any.clone()), ("error", maybe(&text())),
        ]),
        "Upload": {"type": "object", "required": ["content"], "properties": {
            "content": {"type": "string", "format": "binary"}, "metadata": text(),
        }},
        "Move": {"type": "object", "required": ["position"], "additionalProperties": false,
            "properties": {"position": {"type": "integer", "minimum": 0}}},
        "Token": {"type": "object", "additionalProperties": false, "properties": {"token": text()}},
        "NewPlan": look(&[]),
        "Plan": object(&[
            ("memory_bytes", maybe(&whole)), ("device_bytes", maybe(&whole)), ("disk_bytes", whole.clone()),
            ("seconds", maybe(&number)), ("frames", maybe(&whole)), ("width", whole.clone()), ("height", whole.clone()),
            ("notes", json!({"type": "array", "items": text()})), ("plan", any.clone()),
        ]),
        "NewPreview": look(&[("seconds", json!({"type": "number", "minimum": 0, "maximum": 1e8}))]),
        "Preview": object(&[
            ("id", text()), ("seconds", number.clone()), ("width", whole.clone()), ("height", whole.clone()),
            ("before", text()), ("after", text()),
        ]),
        "Probe": object(&[
            ("width", whole.clone()), ("height", whole.clone()), ("fps", maybe(&number)), ("frames", maybe(&whole)),
            ("seconds", maybe(&number)), ("audio", whole.clone()), ("codec", text()),
        ]),
        "Model": object(&[
            ("url", text()), ("owner", text()), ("name", text()), ("description", text()), ("visibility", text()),
            ("run_count", whole.clone()), ("installed", flag.clone()), ("kind", text()), ("size_bytes", maybe(&whole)),
            ("pull", maybe(&text())),
        ]),
        "Device": object(&[
            ("name", text()), ("description", maybe(&text())), ("kind", maybe(&text())), ("memory_bytes", maybe(&whole)),
            ("busy", maybe(&text())),
        ]),
        "Folder": object(&[("path", maybe(&text())), ("entries", json!({"type": "array", "items": object(&[
            ("name", text()), ("path", text()), ("folder", flag), ("size", maybe(&whole)),
        ])}))]),
        "Session": object(&[
            ("version", text()), ("token_required", json!({"type": "boolean"})), ("folders", json!({"type": "array"})),
            ("upload_limit", whole.clone()), ("free_disk", maybe(&whole)), ("keep_seconds", whole.clone()),
            ("jobs_limit", whole),
        ]),
        "Any": any,
    })
}

/// What an operation takes and gives.
struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// Type and schema of the body.
    takes: Option<(&'static str, &'static str)>,
    /// Status, and type and schema of the answer.
    gives: (u16, Option<(&'static str, &'static str)>),
    /// Names behind the question mark.
    query: &'static [&'static str],
}

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";
const BYTES: &str = "*/*";

const fn get(path: &'static str, schema: &'static str, summary: &'static str) -> Operation {
    Operation { method: "get", path, summary, takes: None, gives: (200, Some((JSON, schema))), query: &[] }
}

const fn data(
    path: &'static str,
    kind: &'static str,
    query: &'static [&'static str],
    summary: &'static str,
) -> Operation {
    Operation { method: "get", path, summary, takes: None, gives: (200, Some((kind, ""))), query }
}

const fn change(
    path: &'static str,
    takes: &'static str,
    gives: (u16, &'static str),
    summary: &'static str,
) -> Operation {
    let takes = if takes.is_empty() { None } else { Some((JSON, takes)) };
    Operation { method: "post", path, summary, takes, gives: (gives.0, Some((JSON, gives.1))), query: &[] }
}

const fn delete(path: &'static str, summary: &'static str) -> Operation {
    Operation { method: "delete", path, summary, takes: None, gives: (204, None), query: &[] }
}

const OPERATIONS: &[Operation] = &[
    Operation {
        method: "post",
        path: "/v1/files",
        summary: "Upload a film or a picture",
        takes: Some(("multipart/form-data", "Upload")),
        gives: (201, Some((JSON, "File"))),
        query: &[],
    },
    get("/v1/files", "[File]", "Uploads, the newest first"),
    get("/v1/files/{id}", "File", "An upload"),
    delete("/v1/files/{id}", "Remove an upload"),
    data("/v1/files/{id}/content", BYTES, &[], "Its bytes, or a range of them"),
    data("/v1/files/{id}/picture", "image/png", &["seconds", "width"], "A frame of it"),
    get("/v1/files/{id}/probe", "Probe", "What is in it"),
    Operation {
        query: &["path"],
        ..get("/v1/folders", "Folder", "Films on the disk of the server, below allowed folders")
    },
    data("/v1/folders/picture", "image/png", &["path!", "seconds", "width"], "A frame of a film there"),
    Operation { query: &["path!"], ..get("/v1/folders/probe", "Probe", "What is in a film there") },
    change("/v1/predictions", "NewPrediction", (201, "Prediction"), "Restore a film"),
    change(
        "/v1/models/{owner}/{name}/predictions",
        "NewPredictionOfModel",
        (201, "Prediction"),
        "Restore a film with a model",
    ),
    Operation {
        query: &["cursor", "limit"],
        ..get("/v1/predictions", "[Prediction]", "Jobs, the newest first")
    },
    get("/v1/predictions/{id}", "Prediction", "A job"),
    delete("/v1/predictions/{id}", "Remove a job that is over, and its result"),
    change("/v1/predictions/{id}/cancel", "", (200, "Prediction"), "Cancel a job"),
    change("/v1/predictions/{id}/pause", "", (200, "Prediction"), "Pause a job"),
    change("/v1/predictions/{id}/resume", "", (200, "Prediction"), "Let a paused job go on"),
    change(
        "/v1/predictions/{id}/retry",
        "",
        (200, "Prediction"),
        "Let a job that failed or was cancelled wait again",
    ),
    change("/v1/predictions/{id}/move", "Move", (200, "Prediction"), "Change the place of a job that waits"),
    data("/v1/predictions/{id}/content", BYTES, &["download"], "The result, or a range of it"),
    data("/v1/predictions/{id}/source", BYTES, &[], "What is restored, or a range of it"),
    data("/v1/predictions/{id}/picture", "image/jpeg", &["at"], "The newest restored frame"),
    data("/v1/predictions/{id}/frames/{n}", "image/png", &["side", "width"], "A frame before or after"),
    data("/v1/predictions/{id}/events", SSE, &[], "Progress of a job, line by line"),
    data("/v1/predictions/{id}/stream", SSE, &[], "Messages and result of a job, as Replicate streams them"),
    data("/v1/events", SSE, &[], "Changes of all jobs"),
    change("/v1/plans", "NewPlan", (200, "Plan"), "What a restoration will cost"),
    change("/v1/previews", "NewPreview", (201, "Preview"), "A frame before and after"),
    data("/v1/previews/{id}/{side}", "image/png", &[], "A picture of a preview"),
    get("/v1/models", "[Model]", "Models"),
    get("/v1/models/{owner}/{name}", "Model", "A model"),
    get("/v1/models/{owner}/{name}/versions/{version}", "Any", "A version of a model"),
    get("/v1/devices", "[Device]", "Devices, and what they do"),
    get("/v1/session", "Session", "What this server allows"),
    Operation {
        gives: (204, None),
        ..change("/v1/session", "Token", (204, ""), "Give the token, get a cookie")
    },
    get("/v1/account", "Any", "Whose server this is"),
    get("/v1/webhooks/default/secret", "Any", "The secret that webhooks are signed with"),
    data("/healthz", "text/plain", &[], "The server lives"),
    data("/readyz", "text/plain", &[], "The server takes jobs"),
    data("/metrics", "text/plain", &[], "Figures for Prometheus"),
];

/// What a name in a path or behind a question mark can be. One with an exclamation mark must be there.
fn parameter(name: &str, place: &str) -> Value {
    let required = name.ends_with('!');
    let name = name.trim_end_matches('!');
    let schema = match name {
        "id" => json!({"type": "string", "pattern": "^[a-z2-7]{25}$"}),
        "cursor" => json!({"type": "string", "pattern": "^[0-9]{1,20}-[a-z2-7]{25}$"}),
        "owner" => json!({"const": "remaster"}),
        "name" => json!({"enum": MODELS.map(|(name, _)| name)}),
        "n" => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
        "side" => json!({"enum": ["before", "after"]}),
        "width" => json!({"type": "integer", "minimum": 16, "maximum": 16384}),
        "limit" => json!({"type": "integer", "minimum": 1, "maximum": 100}),
        "seconds" => json!({"type": "number", "minimum": 0, "maximum": 1e8}),
        "version" => json!({"type": "string", "maxLength": 100}),
        _ => text(),
    };
    json!({"name": name, "in": place, "required": required || place == "path", "schema": schema})
}

fn described(operation: &Operation) -> Value {
    let words = operation.path.split(['{', '}']).skip(1).step_by(2).map(|name| parameter(name, "path"));
    let mut parameters: Vec<Value> = words.collect();
    parameters.extend(operation.query.iter().map(|name| parameter(name, "query")));
    if operation.method != "get" {
        let about = "this header, with any value, or `Authorization: Bearer TOKEN`";
        let header = json!({"name": "X-Remaster", "in": "header", "description": about, "schema": text()});
        parameters.push(header);
    }
    let schema = |name: &str| match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(name) => list_of(&of(name)),
        None if name.is_empty() => json!({"type": "string"}),
        None => of(name),
    };
    let content = |(kind, name): (&str, &str)| match kind {
        // What an event holds depends on its name.
        SSE => json!({kind: {}}),
        kind => json!({kind: {"schema": schema(name)}}),
    };
    let (status, gives) = operation.gives;
    let mut answer = json!({"description": operation.summary});
    if let Some(gives) = gives {
        answer["content"] = content(gives);
    }
    let problem =
        json!({"description": "Why not", "content": {"application/problem+json": {"schema": of("Problem")}}});
    let mut responses = Map::new();
    responses.insert(status.to_string(), answer.clone());
    if matches!(gives, Some((BYTES, _))) {
        responses.insert("206".into(), answer);
    }
    responses.insert("default".into(), problem);
    let mut described =
        json!({"summary": operation.summary, "parameters": parameters, "responses": responses});
    if let Some(takes) = operation.takes {
        described["requestBody"] = json!({"required": true, "content": content(takes)});
    }
    described
}

/// `/openapi.json`.
pub(crate) async fn document() -> Json<Value> {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = described(operation);
    }
    Json(json!({
        "openapi": "3.1.0",
        "info": {"title": "Remaster", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "MIT OR Apache-2.0"}},
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
        "paths": paths,
    }))
}
