//! A diffusion transformer by its name or file, on a clip of some size.

use std::path::Path;
use std::sync::Arc;

use remaster_compute::{Backend, DType, Shape};
use remaster_engine::Task;
use remaster_model::dit::{Dit, DitConfig, Family, Text};
use remaster_model::{Build, Params, Scope, Values, computed};
use remaster_plan::{Cells, Clip, INPUT, OUTPUT};
use remaster_weights::{EmbeddingError, FormulaParams, LATENT_SCALE, TextEmbedding, open_dit, uniform};

use crate::error::Error;
use crate::models::refuse_removed;

/// Tokens of the published text embedding.
const WORDS: usize = 58;
/// Pixels of a token, each way.
const TOKEN: usize = 16;

/// Weights of a transformer.
pub struct Transformer {
    /// Its sizes.
    pub config: DitConfig,
    params: Box<dyn Params>,
    /// What people should know about the file.
    pub warnings: Vec<String>,
    /// Latents of the VAE times this are those of the transformer.
    pub(crate) scale: f32,
    /// The text embedding, if the file has one.
    pub(crate) text: Option<TextEmbedding>,
}

impl Transformer {
    /// A file, or `formula:3b` and the like.
    pub fn open(word: &str) -> Result<Self, Error> {
        let formula = |config| Transformer {
            config,
            params: Box::new(FormulaParams),
            warnings: Vec::new(),
            scale: LATENT_SCALE,
            text: None,
        };
        Ok(match word {
            "formula:3b" => formula(DitConfig::dit_3b()),
            "formula:7b" => formula(DitConfig::dit_7b()),
            "formula:tiny-3b" => formula(DitConfig::tiny(Family::Shared)),
            "formula:tiny-7b" => formula(DitConfig::tiny(Family::Separate)),
            word if word.starts_with("formula:") => {
                return Err(Error::DitWeights { word: word.to_owned() });
            }
            word => {
                refuse_removed(word)?;
                let (config, params, report) = open_dit(Path::new(word))?;
                let warnings = report.warnings.iter().map(ToString::to_string).collect();
                let checkpoint = params.checkpoint();
                // It was checked when the file was opened.
                let scale = checkpoint.latent_scale().unwrap_or(LATENT_SCALE);
                let text = match TextEmbedding::of_checkpoint(checkpoint, config.text) {
                    Ok(text) => Some(text),
                    Err(EmbeddingError::Absent) => None,
                    Err(error) => return Err(error.into()),
                };
                Transformer { config, params: Box::new(params), warnings, scale, text }
            }
        })
    }

    /// Only the first blocks.
    pub fn cut(mut self, layers: Option<usize>) -> Self {
        if let Some(layers) = layers.filter(|n| *n < self.config.layers) {
            self.config.layers = layers;
            self.config.separate = self.config.separate.min(layers);
        }
        self
    }

    /// The network on a clip of this size. Its text is as long as the published one.
    pub fn task(&mut self, size: &Size, backend: Backend, build: impl Into<Build>) -> Task {
        let words = computed(|i| uniform("input/bench-text", i as u64));
        self.task_of(size, backend, build, (WORDS, words))
    }

    /// The network on a clip of this size with a text of so many rows.
    pub(crate) fn task_of(
        &mut self,
        size: &Size,
        backend: Backend,
        build: impl Into<Build>,
        (rows, words): (usize, Arc<dyn Values>),
    ) -> Task {
        let build = build.into();
        let scope = &mut Scope::root(self.params.as_mut(), build);
        let text = Text::new(&self.config, scope, rows, words);
        let network = Dit::new(&self.config, scope, text, [size.rows, size.columns], DitConfig::STEP);
        Task::new(Box::new(network), size.cells(), backend, build.dtype)
    }
}

/// Bytes of what goes in and comes out, which is held while the network runs.
pub fn in_flight_bytes(task: &Task) -> u64 {
    let bytes = |side: usize| {
        let [t, h, w, c] = task.job.network.shape(side, task.job.cells);
        Shape::new(t, h, w, c).bytes(DType::F32)
    };
    bytes(INPUT).saturating_add(bytes(OUTPUT))
}

/// A clip in tokens.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    steps: usize,
    rows: usize,
    columns: usize,
}

impl Size {
    /// Of a video that is padded to whole tokens.
    pub fn new(frames: usize, height: usize, width: usize) -> Result<Self, Error> {
        let padded = |n: usize| n.checked_next_multiple_of(TOKEN).unwrap_or(n);
        let clip = Clip::new(frames, padded(height), padded(width));
        let Cells { steps, rows, columns } = clip.map_err(|source| Error::Sizes { source })?.cells();
        let patch = DitConfig::PATCH;
        Ok(Size { steps, rows: rows / patch, columns: columns / patch })
    }

    /// The same in the plan's units.
    pub fn cells(&self) -> Cells {
        Cells { steps: self.steps, rows: self.rows.saturating_mul(self.columns), columns: 1 }
    }

    /// How many tokens there are.
    pub fn tokens(&self) -> usize {
        self.steps.saturating_mul(self.rows).saturating_mul(self.columns)
    }
}
