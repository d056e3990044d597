//! The public files of SeedVR2 and their hashes.

/// What a published file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// The 3B diffusion transformer, with the weights that its authors published on 2025-06-22.
    Dit3b,
    /// The 3B diffusion transformer with the first weights, which those replaced.
    Dit3bFirst,
    /// The 7B diffusion transformer.
    Dit7b,
    /// The 7B diffusion transformer that was trained for more detail.
    Dit7bSharp,
    /// The video VAE, which all of them use.
    Vae,
    /// The text embedding, which all of them use.
    Text,
}

impl Model {
    /// All of them.
    pub const ALL: [Model; 6] =
        [Model::Dit3b, Model::Dit3bFirst, Model::Dit7b, Model::Dit7bSharp, Model::Vae, Model::Text];

    /// The word for it on a command line.
    pub const fn word(self) -> &'static str {
        match self {
            Model::Dit3b => "3b",
            Model::Dit3bFirst => "3b-first",
            Model::Dit7b => "7b",
            Model::Dit7bSharp => "7b-sharp",
            Model::Vae => "vae",
            Model::Text => "text",
        }
    }

    /// Its files, the most exact one first.
    pub fn files(self) -> impl Iterator<Item = &'static Published> {
        PUBLISHED.iter().filter(move |p| p.model == self)
    }
}

/// A file that was published under this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// What it is.
    pub model: Model,
    /// The number format of most of its values, as people call it.
    pub quant: &'static str,
    /// Its path there.
    pub file: &'static str,
    /// The repository on huggingface.co.
    pub repo: &'static str,
    /// SHA-256 in lower-case hexadecimal.
    pub sha256: &'static str,
    /// Size, where the repository's listing was read.
    pub bytes: Option<u64>,
}

const NUMZ: &str = "numz/SeedVR2_comfyUI";
const COMFY: &str = "Comfy-Org/SeedVR2";
const AINVFX: &str = "AInVFX/SeedVR2_comfyUI";
const BYTEDANCE: &str = "ByteDance-Seed/SeedVR2-3B";

const fn file(repo: &'static str, model: Model, quant: &'static str, file: &'static str) -> Published {
    Published { model, quant, file, repo, sha256: "", bytes: None }
}

/// The files that ComfyUI and its nodes for SeedVR2 fetch, and the text embedding that those without one need. Which 3B
/// weights the GGUF files were made of is not published.
pub const PUBLISHED: &[Published] = &[
    file(NUMZ, Model::Vae, "fp16", "ema_vae_fp16.safetensors")
        .content("20678548f420d98d26f11442d3528f8b8c94e57ee046ef93dbb7633da8612ca1", Some(501_324_814)),
    file(COMFY, Model::Dit3b, "fp16", "diffusion_models/seedvr2_3b_fp16.safetensors")
        .content("98669fd2c06df5eca88baf68cd5c478775c8e61fc110e598c52b350145ea2660", None),
    file(COMFY, Model::Dit3b, "fp8", "diffusion_models/seedvr2_3b_fp8_e4m3fn.safetensors")
        .content("a0226eaa2c3e6f47ae5ce83225120f16479da890ced1a3bc32b1a14619787914", Some(3_392_794_232)),
    file(NUMZ, Model::Dit3bFirst, "fp16", "seedvr2_ema_3b_fp16.safetensors")
        .content("2fd0e03a3dad24e07086750360727ca437de4ecd456f769856e960ae93e2b304", Some(6_783_018_808)),
    file(NUMZ, Model::Dit3bFirst, "fp8", "seedvr2_ema_3b_fp8_e4m3fn.safetensors")
        .content("3bf1e43ebedd570e7e7a0b1b60d6a02e105978f505c8128a241cde99a8240cff", Some(3_391_544_696)),
    file(AINVFX, Model::Dit3b, "q8_0", "seedvr2_ema_3b-Q8_0.gguf")
        .content("be0d60083a2051a265eb4b77f28edf494e6db67ffc250216f32b72292e5cbd96", None),
    file(AINVFX, Model::Dit3b, "q4_k_m", "seedvr2_ema_3b-Q4_K_M.gguf")
        .content("e665e3909de1a8c88a69c609bca9d43ff5a134647face2ce4497640cc3597f0e", None),
    file(NUMZ, Model::Dit7b, "fp16", "seedvr2_ema_7b_fp16.safetensors")
        .content("7b8241aa957606ab6cfb66edabc96d43234f9819c5392b44d2492d9f0b0bbe4a", None),
    file(AINVFX, Model::Dit7b, "fp8", "seedvr2_ema_7b_fp8_e4m3fn_mixed_block35_fp16.safetensors")
        .content("3d68b5ec0b295ae28092e355c8cad870edd00b817b26587d0cb8f9dd2df19bb2", Some(8_466_296_338)),
    file(AINVFX, Model::Dit7b, "q4_k_m", "seedvr2_ema_7b-Q4_K_M.gguf")
        .content("db9cb2ad90ebd40d2e8c29da2b3fc6fd03ba87cd58cbadceccca13ad27162789", None),
    file(NUMZ, Model::Dit7bSharp, "fp16", "seedvr2_ema_7b_sharp_fp16.safetensors")
        .content("20a93e01ff24beaeebc5de4e4e5be924359606c356c9c51509fba245bd2d77dd", None),
    file(AINVFX, Model::Dit7bSharp, "fp8", "seedvr2_ema_7b_sharp_fp8_e4m3fn_mixed_block35_fp16.safetensors")
        .content("0d2c5b8be0fda94351149c5115da26aef4f4932a7a2a928c6f184dda9186e0be", None),
    file(AINVFX, Model::Dit7bSharp, "q4_k_m", "seedvr2_ema_7b_sharp-Q4_K_M.gguf")
        .content("7aed800ac4eb8e0d18569a954c0ff35f5a1caa3ed5d920e66cc31405f75b6e69", None),
    file(BYTEDANCE, Model::Text, "bf16", "pos_emb.pt")
        .content("fa07a14844314772266b66c3b95deb0027696d8fe7065721263db5176f45d799", Some(595_100)),
];

/// Values of the transformers.
const VALUES_3B: u64 = 3_391_476_448;
const VALUES_7B: u64 = 8_239_608_232;

impl Published {
    const fn content(self, sha256: &'static str, bytes: Option<u64>) -> Self {
        Published { sha256, bytes, ..self }
    }

    /// Its name without the folders of the repository.
    pub fn name(&self) -> &'static str {
        self.file.rsplit('/').next().unwrap_or(self.file)
    }

    /// Whether the text embedding is inside.
    pub fn has_text(&self) -> bool {
        self.repo == COMFY
    }

    /// Its size, as far as that is known: a file in fp16 has two bytes per value and a header of some kibibytes.
    pub fn about_bytes(&self) -> Option<u64> {
        let values = match self.model {
            Model::Dit3b | Model::Dit3bFirst => VALUES_3B,
            Model::Dit7b | Model::Dit7bSharp => VALUES_7B,
            Model::Vae | Model::Text => return self.bytes,
        };
        self.bytes.or((self.quant == "fp16").then_some(2 * values))
    }
}

/// The public file with this hash.
pub fn published(sha256: &str) -> Option<&'static Published> {
    PUBLISHED.iter().find(|p| p.sha256.eq_ignore_ascii_case(sha256))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_hash_is_one_and_names_one_file() {
        let hashes: HashSet<&str> = PUBLISHED.iter().map(|p| p.sha256).collect();
        let names: HashSet<&str> = PUBLISHED.iter().map(|p| p.name()).collect();
        assert_eq!((hashes.len(), names.len()), (PUBLISHED.len(), PUBLISHED.len()));
        for p in PUBLISHED {
            let is_hash = p.sha256.len() == 64 && p.sha256.bytes().all(|b| b"0123456789abcdef".contains(&b));
            assert!(is_hash, "{p:?}");
            assert_eq!(published(&p.sha256.to_uppercase()), Some(p));
        }
        assert_eq!(published(""), None);
    }

    #[test]
    fn every_model_comes_in_each_format_once_and_in_fp16_first() {
        for model in Model::ALL {
            let quants: Vec<&str> = model.files().map(|p| p.quant).collect();
            let expected: &[&str] = match model {
                Model::Dit3b => &["fp16", "fp8", "q8_0", "q4_k_m"],
                Model::Dit3bFirst => &["fp16", "fp8"],
                Model::Dit7b | Model::Dit7bSharp => &["fp16", "fp8", "q4_k_m"],
                Model::Vae => &["fp16"],
                Model::Text => &["bf16"],
            };
            assert_eq!(quants, expected, "{}", model.word());
        }
        // The 7B file that is fp8 throughout gives artefacts.
        let fp8 = Model::Dit7b.files().find(|p| p.quant == "fp8").unwrap();
        assert!(fp8.file.contains("mixed_block35_fp16"));
        let sizes = Model::Dit7b.files().map(Published::about_bytes).collect::<Vec<_>>();
        assert_eq!(sizes, [Some(16_479_216_464), Some(8_466_296_338), None]);
    }

    #[test]
    fn the_3b_weights_are_the_newer_ones_unless_the_first_are_named() {
        let newest = Model::Dit3b.files().next().unwrap();
        assert_eq!((newest.name(), newest.repo), ("seedvr2_3b_fp16.safetensors", "Comfy-Org/SeedVR2"));
        assert!(newest.has_text() && newest.about_bytes().is_some_and(|bytes| bytes / 1_000_000 == 6782));
        let first: Vec<_> = Model::Dit3bFirst.files().collect();
        assert!(first.iter().all(|p| p.repo == NUMZ && p.name() == p.file && !p.has_text()));
    }
}
