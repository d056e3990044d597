//! The text that every window sees: the embedding of one prompt, projected once per checkpoint.

use std::sync::{Arc, OnceLock};

use remaster_compute::{ComputeError, DType, Ops, Shape, SourceError, Tensor};

use super::DitConfig;
use super::time::Dense;
use crate::params::{Scope, Values};

/// Tokens of the text, `[tokens, d]`.
pub struct Text {
    tokens: usize,
    width: usize,
    channels: usize,
    embedding: Arc<dyn Values>,
    project: Dense,
    values: OnceLock<Result<Vec<f32>, SourceError>>,
}

impl Text {
    /// `txt_in` of a checkpoint on `tokens` tokens of an embedding, `[tokens, text channels]`.
    pub fn new(config: &DitConfig, scope: &mut Scope<'_>, tokens: usize, embedding: Arc<dyn Values>) -> Self {
        let project = Dense::new(scope, "txt_in", config.text, config.width);
        let (width, channels) = (config.width, config.text);
        Text { tokens, width, channels, embedding, project, values: OnceLock::new() }
    }

    /// Number of tokens.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// `[tokens, d]`.
    pub fn values(&self) -> Result<&[f32], SourceError> {
        let make = || {
            let mut embedding = vec![0.0; self.tokens * self.channels];
            self.embedding.read(0, &mut embedding)?;
            self.project.apply(&embedding)
        };
        self.values.get_or_init(make).as_deref().map_err(SourceError::clone)
    }

    /// `[1, tokens, 1, d]`, in f32 as everything that is added to.
    pub fn upload(&self, ops: &mut dyn Ops) -> Result<Tensor, ComputeError> {
        let text = ops.alloc(Shape::new(1, self.tokens, 1, self.width), DType::F32)?;
        if ops.only_counts() {
            ops.upload(&vec![0.0; text.shape().len()], text.view())?;
            return Ok(text);
        }
        let failed = |source| ComputeError::Source { name: "txt_in".into(), source };
        ops.upload(self.values().map_err(failed)?, text.view())?;
        Ok(text)
    }
}
