//! Looks at films: what a restoration will cost, how a frame will look, single frames.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use remaster::{PlanRequest, Restoration, StillRequest, Task};
use remaster_disk::Folder;
use serde_json::{Map, Value, json};

use super::predictions::{media, refuse_scripts, wanted};
use super::{Id, SMALL, Shared, Words, base, content, number, object, only, query};
use crate::app::Film;
use crate::id;
use crate::input::NO_NETWORK;
use crate::job::{Media, Status};
use crate::problem::Problem;
use crate::time;
use crate::watched::Client;

/// Previews that are kept, and for how long.
const MOST_PREVIEWS: usize = 20;

/// The longest film, in seconds: more than a year.
const LONGEST: f64 = 1e8;

/// Widths of pictures.
const WIDTHS: [usize; 2] = [16, 16384];

pub(super) async fn plan(State(app): State<Shared>, body: Body) -> Result<Json<Value>, Problem> {
    let asked = object(body, SMALL).await?;
    only(&asked, &["version", "input"])?;
    let (film, how) = on_disk(&app, &asked).await?;
    let request = PlanRequest { input: film.path.clone(), how, card: None };
    let plan = app.look(Task::Plan(Box::new(request)), Some(&film)).await?;
    let number = |path: &str| plan.pointer(path).and_then(Value::as_u64);
    let sum = |name: &str| {
        let plans = plan.get("plans").and_then(Value::as_array).into_iter().flatten();
        plans.filter_map(|plan| plan.pointer(&format!("/peaks/{name}")).and_then(Value::as_u64)).max()
    };
    let apart = plan.get("backend").and_then(Value::as_str) == Some("gpu");
    let source = |name: &str| plan.pointer(&format!("/source/{name}")).cloned().unwrap_or(Value::Null);
    let rate = plan.pointer("/source/rate").and_then(fraction);
    Ok(Json(json!({
        "memory_bytes": number("/total/ram_bytes"),
        "device_bytes": sum("device").filter(|_| apart),
        "disk_bytes": sum("disk").unwrap_or(0).saturating_add(number("/latent_bytes").unwrap_or(0)),
        "seconds": plan.get("seconds"),
        "seconds_per_frame": plan.get("seconds_per_frame"),
        "basis": plan.get("basis"),
        "frames": source("frames"),
        "frames_estimated": source("frames_estimated"),
        "width": plan.pointer("/geometry/shown/0"),
        "height": plan.pointer("/geometry/shown/1"),
        "source_width": plan.pointer("/geometry/source/0"),
        "source_height": plan.pointer("/geometry/source/1"),
        "fps": rate,
        "device": plan.get("backend"),
        "dtype": plan.get("dtype"),
        "notes": plan.get("notes"),
        "plan": plan,
    })))
}

fn fraction(value: &Value) -> Option<f64> {
    let part = |name: &str| value.get(name).and_then(Value::as_f64);
    Some(part("num")? / part("den")?)
}

/// The film and the settings of a request that looks at a film on the disk.
async fn on_disk(app: &Shared, asked: &Map<String, Value>) -> Result<(Film, Restoration), Problem> {
    let version = asked.get("version").and_then(Value::as_str);
    let (wanted, _) = wanted(app, version, asked)?;
    if wanted.media.starts_with("data:") {
        return Err(Problem::value("upload the film to /v1/files first, so that it can be looked at"));
    }
    let (media, _) = media(app, &wanted.media)?;
    if let Media::Url { .. } = media {
        return Err(Problem::value(
            "a film on another host can be looked at once it was fetched; start the job, or upload the film",
        ));
    }
    let film = app.film_now(&media).await?;
    Ok((film, wanted.how))
}

pub(super) async fn preview(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let asked = object(body, SMALL).await?;
    only(&asked, &["version", "input", "seconds"])?;
    let seconds =
        asked.get("seconds").map_or(Some(0.0), Value::as_f64).filter(|s| (0.0..=LONGEST).contains(s));
    let seconds =
        seconds.ok_or_else(|| Problem::value("`seconds` has to be a time in the film, from 0 on"))?;
    let (film, mut how) = on_disk(&app, &asked).await?;
    let device = app.jobs.borrow().ok_or_else(|| {
        Problem::busy(
            "device-busy",
            "every device is at work; wait, or pause the film that is being restored",
        )
    })?;
    how.device.name = app.settings.devices.get(device.slot).cloned();
    let desk = Desk::new(&app).await?;
    let request = StillRequest {
        input: film.path.clone(),
        at: Duration::from_secs_f64(seconds),
        before: desk.path("before.png"),
        after: Some(desk.path("after.png")),
        width: None,
        how,
    };
    // A large network on a CPU takes minutes for a frame. A client that goes away ends it.
    let limit = Some(app.settings.preview_limit);
    let work = app.process(Task::Still(Box::new(request)), Some(&film), limit, (device, desk));
    let (made, (device, desk)) = client.during(work).await?;
    drop(device);
    let id = app.on_disk(|| desk.keep()).await;
    let url = |side: &str| format!("{}/v1/previews/{id}/{side}", base(&headers));
    let answer = json!({
        "id": id,
        "seconds": seconds,
        "width": made.get("width"),
        "height": made.get("height"),
        "before": url("before"),
        "after": url("after"),
    });
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// A folder of pictures that is removed unless it is kept.
struct Desk {
    app: Shared,
    id: String,
    kept: bool,
}

impl Desk {
    async fn new(app: &Shared) -> Result<Self, Problem> {
        // Pictures stay until slow clients have read them.
        if tokio::task::block_in_place(|| app.uploads.limit()) == 0 {
            let detail = "the disk of the server is full; remove old results and try again";
            return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, "disk-full", detail));
        }
        let id = id::new().map_err(|error| Problem::busy("input-output", error.to_string()))?;
        let made = app.on_disk(|| app.previews.new_folder(&id, true)).await;
        made.map_err(|error| Problem::system("pictures cannot be kept", &error))?;
        Ok(Desk { app: Shared::clone(app), id, kept: false })
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.app.previews.path().join(&self.id).join(name)
    }

    fn folder(&self) -> std::io::Result<Folder> {
        self.app.previews.folder(&self.id)
    }

    /// Keeps it, and removes the oldest of many. Those that are still being made have no second picture yet.
    fn keep(mut self) -> String {
        self.kept = true;
        let app = &self.app;
        let is_made =
            |id: &String| app.previews.folder(id).is_ok_and(|folder| folder.read("after.png").is_ok());
        let made = |id: &str| {
            let about = std::fs::symlink_metadata(app.previews.path().join(id));
            about.and_then(|about| about.modified()).unwrap_or(std::time::UNIX_EPOCH)
        };
        let mut all: Vec<String> = app
            .previews
            .names(1000)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .filter(is_made)
            .collect();
        all.sort_by_key(|id| std::cmp::Reverse(made(id)));
        for old in all.iter().skip(MOST_PREVIEWS) {
            let _ = app.previews.remove_tree(old);
        }
        self.id.clone()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if !self.kept {
            let _ = self.app.previews.remove_tree(&self.id);
        }
    }
}

pub(super) async fn preview_picture(
    State(app): State<Shared>,
    headers: HeaderMap,
    Words(words): Words,
) -> Result<Response, Problem> {
    let id = words.get("id").filter(|id| id::is_id(id)).ok_or_else(|| Problem::missing("preview"))?;
    let name = match words.get("side").map(String::as_str) {
        Some("before") => "before.png",
        Some("after") => "after.png",
        _ => return Err(Problem::missing("side")),
    };
    let opened = app.on_disk(|| app.previews.folder(id)?.read(name)).await;
    let file = opened.map_err(|_| Problem::missing("picture"))?;
    content::answer(&app, (file, ()), &headers, &content::About::picture(name, format!("{id}-{name}")))
}

/// A frame of a film as a picture.
async fn still(
    app: &Shared,
    film: &Film,
    at: f64,
    width: Option<usize>,
    how: Restoration,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let desk = Desk::new(app).await?;
    let request = StillRequest {
        input: film.path.clone(),
        at: Duration::from_secs_f64(at.clamp(0.0, LONGEST)),
        before: desk.path("before.png"),
        after: None,
        width,
        how,
    };
    let (_, desk) = app.look_with(Task::Still(Box::new(request)), Some(film), desk).await?;
    let opened = app.on_disk(|| desk.folder()?.read("before.png")).await;
    let file = opened.map_err(|error| Problem::system("the picture cannot be read", &error))?;
    let tag = desk.id.clone();
    content::answer(app, (file, desk), headers, &content::About::picture("picture.png", tag))
}

/// How a film is read when it is only looked at.
fn looking(app: &Shared, how: &Restoration) -> Restoration {
    let mut looking = app.settings.how.clone();
    looking.models.model = NO_NETWORK.into();
    looking.source = how.source.clone();
    looking
}

pub(super) async fn picture_of_file(
    State(app): State<Shared>,
    headers: HeaderMap,
    uri: Uri,
    Id(id): Id,
) -> Result<Response, Problem> {
    let words = query(&uri, &["seconds", "width"])?;
    picture(&app, &app.film(&Media::File { id })?, &words, &headers).await
}

pub(super) async fn picture_in_folder(
    State(app): State<Shared>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let words = query(&uri, &["path", "seconds", "width"])?;
    picture(&app, &in_folder(&app, &words).await?, &words, &headers).await
}

async fn picture(
    app: &Shared,
    film: &Film,
    words: &HashMap<String, String>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let seconds = number(words, "seconds", 0.0, LONGEST, "a time in the film, from 0 on")?.unwrap_or(0.0);
    let width = number(words, "width", WIDTHS[0], WIDTHS[1], "a whole number from 16 to 16384")?;
    still(app, film, seconds, width, looking(app, &app.settings.how), headers).await
}

/// The film below an allowed folder that the words behind the question mark name.
async fn in_folder(app: &Shared, words: &HashMap<String, String>) -> Result<Film, Problem> {
    let missing = || Problem::new(StatusCode::BAD_REQUEST, "usage", "`path` is missing; name a film");
    let place = app.folders.place(words.get("path").ok_or_else(missing)?)?;
    place.names.last().map_or(Ok(()), |name| refuse_scripts(name))?;
    let media = Media::Path { folder: place.folder, names: place.names };
    app.film_now(&media).await
}

pub(super) async fn probe_of_file(State(app): State<Shared>, Id(id): Id) -> Result<Json<Value>, Problem> {
    facts(&app, &app.film(&Media::File { id })?).await
}

pub(super) async fn probe_in_folder(State(app): State<Shared>, uri: Uri) -> Result<Json<Value>, Problem> {
    facts(&app, &in_folder(&app, &query(&uri, &["path"])?).await?).await
}

/// What a film is.
async fn facts(app: &Shared, film: &Film) -> Result<Json<Value>, Problem> {
    let still = tokio::task::block_in_place(|| remaster::is_still(&film.path));
    let probe = probe(app, film).await?;
    let video = |name: &str| probe.pointer(&format!("/video/{name}")).cloned().unwrap_or(Value::Null);
    let others = probe.get("others").and_then(Value::as_array);
    let audio = others.map_or(0, |all| all.iter().filter(|stream| stream["kind"] == "audio").count());
    Ok(Json(json!({
        "width": video("width"),
        "height": video("height"),
        "fps": probe.pointer("/video/rate").and_then(fraction).filter(|_| !still),
        "frames": if still { json!(1) } else { video("frames") },
        "frames_estimated": video("frames_estimated"),
        "seconds": probe.get("duration").filter(|_| !still),
        "audio": audio,
        "codec": video("codec"),
        "notes": video("notes"),
    })))
}

async fn probe(app: &Shared, film: &Film) -> Result<Value, Problem> {
    let source = Box::new(app.settings.how.source.clone());
    app.look(Task::Probe { input: film.path.clone(), source }, Some(film)).await
}

pub(super) async fn frame(
    State(app): State<Shared>,
    headers: HeaderMap,
    uri: Uri,
    Words(path): Words,
) -> Result<Response, Problem> {
    let words = query(&uri, &["side", "width"])?;
    let width = number(&words, "width", WIDTHS[0], WIDTHS[1], "a whole number from 16 to 16384")?;
    let after = match words.get("side").map(String::as_str) {
        None | Some("after") => true,
        Some("before") => false,
        Some(_) => {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "usage", "side has to be before or after"));
        }
    };
    let id = path.get("id").filter(|id| id::is_id(id)).ok_or_else(|| Problem::missing("prediction"))?;
    let n = path.get("n").and_then(|n| n.parse::<u32>().ok()).ok_or_else(|| Problem::missing("frame"))?;
    let job = app.jobs.get(id)?;
    let done = job.status == Status::Succeeded;
    if after && !done {
        return Err(Problem::conflict("frames of the result are there when the job has succeeded"));
    }
    let result = Film::at(app.jobs.path(id).join(job.result()), &job.output_name());
    // It may be gone when the result is still there.
    let shown = match &job.media {
        _ if after => result.clone(),
        Media::Url { .. } => Film::at(app.jobs.path(id).join("fetched"), &job.name),
        media => app.film_now(media).await?,
    };
    // Frames are counted as those of the result, which has the times of its source.
    let rate = rate(&app, if done { &result } else { &shown }, id, done).await?;
    let at = rate.map_or(0.0, |rate| (f64::from(n) - 0.5).max(0.0) / rate);
    let how = match after {
        true => looking(&app, &app.settings.how),
        false => looking(&app, &job.how),
    };
    still(&app, &shown, at, width, how, &headers).await
}

/// Frames per second of the result of a job or of its source, asked once for each.
async fn rate(app: &Shared, film: &Film, id: &str, done: bool) -> Result<Option<f64>, Problem> {
    if tokio::task::block_in_place(|| remaster::is_still(&film.path)) {
        return Ok(None);
    }
    let key = (id.to_owned(), done);
    let known = app.rates.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(&key).copied();
    if let Some((rate, when)) = known
        && time::now().saturating_sub(when) < 3_600_000
    {
        return Ok(Some(rate));
    }
    let probe = probe(app, film).await?;
    let rate = probe.pointer("/video/rate").and_then(fraction).filter(|rate| rate.is_finite() && *rate > 0.0);
    if let Some(rate) = rate {
        let mut rates = app.rates.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if rates.len() >= 256 {
            rates.clear();
        }
        rates.insert(key, (rate, time::now()));
    }
    Ok(rate)
}
