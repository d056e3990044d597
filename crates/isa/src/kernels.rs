//! The kernels that the real networks use.

use std::collections::HashMap;

use remaster_compute::gpu::{
    KernelText, LayerUse, MatrixUnits, Variant, layer_name, other_texts, product_text, variants,
};
use remaster_compute::{DType, WeightSpec};
use remaster_model::dit::DitConfig;
use remaster_model::vae::Direction;

use crate::network::{Task, transformer, upscaler, vae};
use crate::spirv;

/// A kernel, and all that it serves.
pub(crate) struct Kernel {
    pub(crate) text: KernelText,
    pub(crate) words: Vec<u32>,
    /// Layers, as [`layer`] names them; one name for a kernel that multiplies no weights.
    pub(crate) layers: Vec<String>,
    /// For products.
    pub(crate) variant: Option<Variant>,
}

/// Name of a layer and how it is used.
pub(crate) fn layer(spec: &WeightSpec, used: LayerUse) -> String {
    let on = |flag, word: &'static str| if flag { word } else { "" };
    layer_name(spec) + on(used.prologue, ", norm") + on(used.shortcut, ", shortcut")
}

/// Every layer of the VAE, both transformers and the upscaler once, and how it is used; each also without anything around it, which is how
/// benchmarks run it, and without its normalisation, which is how it follows a pass.
pub(crate) fn layers(dtype: DType) -> Result<Vec<(WeightSpec, LayerUse)>, String> {
    let works = [
        vae(Direction::Encode, dtype),
        vae(Direction::Decode, dtype),
        transformer(&DitConfig::dit_3b(), dtype),
        transformer(&DitConfig::dit_7b(), dtype),
        upscaler(dtype),
    ];
    let mut all = Vec::new();
    for work in works {
        for job in work.map_err(|e| e.to_string())?.jobs {
            let Task::Product { spec, used, .. } = job.task else { continue };
            for used in [LayerUse::default(), LayerUse { prologue: false, ..used }, used] {
                if !all.contains(&(spec, used)) {
                    all.push((spec, used));
                }
            }
        }
    }
    Ok(all)
}

/// All kernels for a device with these matrix units, in f16 and f32. Those whose words are the same are one.
pub(crate) fn all(units: MatrixUnits) -> Result<Vec<Kernel>, String> {
    let (mut all, mut known) = (Vec::<Kernel>::new(), HashMap::new());
    let mut add = |layer: String, text: KernelText, variant: Option<Variant>| {
        let words = spirv::words(&text).map_err(|reason| format!("{}: {reason}", text.name))?;
        let at = *known.entry((words.clone(), text.buffers)).or_insert(all.len());
        match all.get_mut(at) {
            Some(kernel) => kernel.layers.push(layer),
            None => all.push(Kernel { text, words, layers: vec![layer], variant }),
        }
        Ok::<_, String>(())
    };
    for dtype in [DType::F16, DType::F32] {
        for (spec, used) in layers(dtype)? {
            for variant in chosen(&spec, units) {
                if let Some(text) = product_text(&spec, &variant, used) {
                    add(layer(&spec, used), text, Some(variant))?;
                }
            }
        }
        for text in other_texts(dtype, Some(units)) {
            add(text.name.clone(), text, None)?;
        }
    }
    Ok(all)
}

/// Kernels of a layer that are worth a look: in f16 those on matrix units, else the default; in f32 also the first
/// one that transforms.
fn chosen(spec: &WeightSpec, units: MatrixUnits) -> Vec<Variant> {
    let all = variants(spec, Some(units));
    let matrix: Vec<Variant> = all.iter().filter(|v| v.family() == "matrix").copied().collect();
    if !matrix.is_empty() {
        return matrix;
    }
    let winograd = all.iter().find(|v| v.family() == "winograd");
    all.first().into_iter().chain(winograd).copied().collect()
}

impl Kernel {
    /// Its name in tables: the variant and what it serves, channels of one kind of layer together.
    pub(crate) fn label(&self) -> String {
        let served = grouped(&self.layers);
        match &self.variant {
            Some(variant) => format!("{variant}: {served}"),
            None => served,
        }
    }

    /// Its name in records: short, and the same while any layer needs it.
    pub(crate) fn key(&self) -> &str {
        &self.text.name
    }
}

/// `conv 3x3x3 512 to 512 f16, norm` and `conv 3x3x3 256 to 256 f16, norm` as `conv 3x3x3 f16, norm (512 to 512, 256 to 256)`.
fn grouped(layers: &[String]) -> String {
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for layer in layers {
        let (kind, channels) = parted(layer).unwrap_or_else(|| (layer.clone(), String::new()));
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, all)) => all.push(channels),
            None => kinds.push((kind, vec![channels])),
        }
    }
    let text = |(kind, channels): &(String, Vec<String>)| match channels.iter().any(|c| !c.is_empty()) {
        true => format!("{kind} ({})", channels.join(", ")),
        false => kind.clone(),
    };
    kinds.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// What a layer is, and its channels.
fn parted(layer: &str) -> Option<(String, String)> {
    let (front, behind) = layer.split_once(" to ")?;
    let (kind, cin) = front.rsplit_once(' ')?;
    let (cout, rest) = behind.split_once(' ')?;
    Some((format!("{kind} {rest}"), format!("{cin} to {cout}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_a_kind_are_told_together() {
        let layers =
            ["conv 3x3x3 512 to 512 f16, norm", "conv 3x3x3 256 to 128 f16, norm", "linear 8 to 16 f16"];
        let told = grouped(&layers.map(str::to_owned));
        assert_eq!(told, "conv 3x3x3 f16, norm (512 to 512, 256 to 128); linear f16 (8 to 16)");
        assert_eq!(grouped(&["add gated f16".to_owned()]), "add gated f16");
    }

    #[test]
    fn kernels_with_the_same_words_are_one() -> Result<(), String> {
        let all = all(MatrixUnits { size: 16, subgroup: 32, fixed: true })?;
        let served: usize = all.iter().map(|kernel| kernel.layers.len()).sum();
        assert!(all.len() < served / 2, "{} kernels for {served} uses", all.len());
        Ok(())
    }
}
