//! Before and after: a frame of a clip, restored, and the two laid over each other.

use std::path::Path;

use super::program::Program;
use super::terminal::escaped;

/// What a block ```` ```slider ```` asks for: `CLIP TIME RESOLUTION`, and below it what is seen.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    clip: &'a str,
    time: &'a str,
    resolution: &'a str,
    caption: String,
}

fn wanted(block: &str) -> Result<Wanted<'_>, String> {
    let (first, rest) = block.split_once('\n').unwrap_or((block, ""));
    match first.split_whitespace().collect::<Vec<_>>()[..] {
        [clip, time, resolution] => {
            Ok(Wanted { clip, time, resolution, caption: rest.trim().replace('\n', " ") })
        }
        _ => Err(format!("a slider needs a clip, a time and a resolution: {first}")),
    }
}

/// Makes both pictures in `folder` and returns what shows them.
pub(crate) fn make(program: &Program, block: &str, name: &str, folder: &Path) -> Result<String, String> {
    let Wanted { clip, time, resolution, caption } = wanted(block)?;
    let restore =
        format!("remaster {name}.png -o {name}-restored.png --model anime --resolution {resolution}");
    let take = format!("ffmpeg -v error -y -ss {time} -i {clip} -frames:v 1 {name}.png");
    program.output(&take)?;
    program.output(&restore)?;
    // The same size on both sides, as a player would enlarge the original.
    program.output(&format!(
        "ffmpeg -v error -y -i {name}.png -i {name}-restored.png -filter_complex \
         '[0][1]scale2ref=flags=bicubic[before][after];[before]format=yuvj444p[b];[after]format=yuvj444p[a]' \
         -map '[b]' -q:v 3 {name}-before.jpg -map '[a]' -q:v 3 {name}-after.jpg"
    ))?;
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for side in ["before", "after"] {
        let file = format!("{name}-{side}.jpg");
        std::fs::copy(program.folder().join(&file), folder.join(&file))
            .map_err(|e| format!("{file}: {e}"))?;
    }
    Ok(format!(
        "<figure class=\"slider\">\n<div class=\"sides\">\n\
         <img class=\"before\" src=\"pictures/{name}-before.jpg\" alt=\"Before: {0}\">\n\
         <img class=\"after\" src=\"pictures/{name}-after.jpg\" alt=\"After: {0}\">\n\
         <span class=\"label left\" aria-hidden=\"true\">before</span><span class=\"label right\" aria-hidden=\"true\">after</span>\n\
         <input type=\"range\" min=\"0\" max=\"100\" step=\"any\" value=\"50\" aria-label=\"How much of the picture is before\">\n\
         </div>\n<figcaption>{0}</figcaption>\n</figure>\n\n```sh\n{take}\n{restore}\n```\n",
        escaped(&caption)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_names_clip_time_resolution_and_what_is_seen() {
        let found = wanted("a.mp4 1.5 1080\nA film,\nin colour.").unwrap();
        let caption = "A film, in colour.".to_owned();
        assert_eq!(found, Wanted { clip: "a.mp4", time: "1.5", resolution: "1080", caption });
        assert!(wanted("a.mp4").is_err());
    }
}
