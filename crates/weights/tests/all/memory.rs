//! Checkpoints that lie in memory, and the factor for latents in the metadata of a transformer.

use crate::support::{network, on_disk};
use remaster_model::dit::{self, DitConfig, Family};
use remaster_model::vae::{self, VaeConfig};
use remaster_model::{Param, Params, Wanted};
use remaster_weights::{
    LATENT_SCALE, LoadError, dit_from_bytes, open_dit, open_vae, sha256_hex, sha256_of_bytes, vae_from_bytes,
};

fn dit_file(metadata: &str) -> Vec<u8> {
    network(&dit::params(&DitConfig::tiny(Family::Shared)), metadata)
}

fn vae_file() -> Vec<u8> {
    network(&vae::params(&VaeConfig::tiny()), "")
}

/// As `include_bytes!` gives them.
fn inside(bytes: Vec<u8>) -> &'static [u8] {
    bytes.leak()
}

fn values(params: &mut impl Params, param: &Param) -> Vec<f32> {
    let mut values = vec![0.0; param.shape.iter().product()];
    params.values(&Wanted::from(param.clone())).read(0, &mut values).unwrap();
    values
}

#[test]
fn a_network_in_memory_is_the_one_of_a_file() {
    let ((_vae, vae), (_dit, dit)) = (on_disk("vae", vae_file()), on_disk("dit", dit_file("")));

    let (config, mut params, report) = vae_from_bytes("inside", inside(vae_file())).unwrap();
    let (same, mut read, listed) = open_vae(&vae).unwrap();
    assert_eq!((&config, report), (&same, listed));
    for param in vae::params(&config) {
        assert_eq!(values(&mut params, &param), values(&mut read, &param), "{}", param.name);
    }

    let (config, mut params, report) = dit_from_bytes("inside", inside(dit_file(""))).unwrap();
    let (same, mut read, listed) = open_dit(&dit).unwrap();
    assert_eq!((&config, report), (&same, listed));
    assert_eq!(sha256_of_bytes(&dit_file("")), sha256_hex(&dit).unwrap());
    for param in dit::params(&config) {
        assert_eq!(values(&mut params, &param), values(&mut read, &param), "{}", param.name);
    }
}

#[test]
fn errors_of_a_network_in_memory_call_it_by_its_name() {
    let error = vae_from_bytes("inside", dit_file("")).unwrap_err();
    assert!(error.to_string().starts_with("inside is "), "{error}");
    assert!(matches!(error, LoadError::NotAVae { .. }));
    let error = dit_from_bytes("inside", vae_file()).unwrap_err();
    assert!(matches!(error, LoadError::NotADit { .. }));
    let cut = dit_file("");
    let error = dit_from_bytes("inside", cut[..cut.len() / 2].to_vec()).unwrap_err();
    assert_eq!(error.to_string(), "cannot use inside");
}

#[test]
fn latents_are_scaled_as_the_metadata_says_or_else_as_in_the_public_networks() {
    for (metadata, scale) in [
        ("", LATENT_SCALE),
        (r#"{"title":"x"}"#, LATENT_SCALE),
        (r#"{"latent_scale":"0.28"}"#, 0.28),
        (r#"{"latent_scale":"2e1"}"#, 20.0),
    ] {
        let (_, params, _) = dit_from_bytes("x", dit_file(metadata)).unwrap();
        assert_eq!(params.checkpoint().latent_scale(), Ok(scale), "{metadata}");
    }
    for said in ["0", "-1", "nan", "inf", "", "one", "1e99", "1e-44", "3e38"] {
        let metadata = format!(r#"{{"latent_scale":"{said}"}}"#);
        let error = dit_from_bytes("x", dit_file(&metadata)).unwrap_err();
        let LoadError::LatentScale { source, .. } = error else { panic!("{said}: {error}") };
        assert_eq!(source.said, said);
        assert!(source.to_string().contains("0.9152"), "{source}");
    }
}
