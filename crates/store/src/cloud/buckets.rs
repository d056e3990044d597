//! Buckets of S3 and its likes, Google and Azure.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::place::{Cloud, Place};
use crate::secrets::Secrets;
use crate::{StoreError, StoreSettings};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(15);

/// Servers close idle connections after some 20 s; one that they closed costs a try.
const IDLE: Duration = Duration::from_secs(10);

pub(crate) fn open(
    place: &Place,
    cloud: Cloud,
    bucket: &str,
    settings: &StoreSettings,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    // reqwest wants to be told whose arithmetic TLS uses. An error says that the program has chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let named = |prefix: &'static str| {
        let of = settings.variables.iter().filter(move |(name, _)| name.starts_with(prefix));
        of.map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
    };
    if let Some(variable) = plain_http(cloud, settings) {
        return Err(StoreError::PlainHttp { place: place.to_string(), variable });
    }
    // Our options come first, so that a variable (AWS_ALLOW_HTTP, say) has the last word.
    let built: object_store::Result<Arc<dyn ObjectStore>> = match cloud {
        Cloud::S3 => {
            let start = AmazonS3Builder::new().with_client_options(client(settings)).with_retry(retries());
            let options = named("AWS_").filter_map(|(name, value)| Some((name.parse().ok()?, value)));
            let builder = options.fold(start, |builder, (name, value)| builder.with_config(name, value));
            builder.with_bucket_name(bucket).build().map(|store| Arc::new(store) as _)
        }
        Cloud::Google => {
            let mut start =
                GoogleCloudStorageBuilder::new().with_client_options(client(settings)).with_retry(retries());
            if let Some((_, path)) = named("SERVICE_ACCOUNT").find(|(name, _)| name == "service_account") {
                start = start.with_service_account_path(path);
            }
            let options = named("GOOGLE_").filter_map(|(name, value)| Some((name.parse().ok()?, value)));
            let builder = options.fold(start, |builder, (name, value)| builder.with_config(name, value));
            builder.with_bucket_name(bucket).build().map(|store| Arc::new(store) as _)
        }
        Cloud::Azure => {
            let start =
                MicrosoftAzureBuilder::new().with_client_options(client(settings)).with_retry(retries());
            let options = named("AZURE_").filter_map(|(name, value)| Some((name.parse().ok()?, value)));
            let builder = options.fold(start, |builder, (name, value)| builder.with_config(name, value));
            builder.with_container_name(bucket).build().map(|store| Arc::new(store) as _)
        }
    };
    let hidden = |text: String| Secrets::of(settings).hide(&text);
    built.map_err(|e| StoreError::Settings { place: place.to_string(), reason: hidden(e.to_string()) })
}

/// The variable that must allow an endpoint without TLS, if that is what was named.
fn plain_http(cloud: Cloud, settings: &StoreSettings) -> Option<&'static str> {
    let (endpoints, allows): (&[&str], _) = match cloud {
        Cloud::S3 => (&["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"], "AWS_ALLOW_HTTP"),
        Cloud::Azure => (&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"], "AZURE_ALLOW_HTTP"),
        // Its endpoint is in the file with the credentials.
        Cloud::Google => return None,
    };
    let value =
        |name: &str| settings.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let is_plain =
        |name: &&str| value(name).is_some_and(|url| url.to_ascii_lowercase().starts_with("http://"));
    let allowed = value(allows).is_some_and(|word| ["1", "true", "on", "yes", "y"].contains(&word.as_str()));
    (endpoints.iter().any(is_plain) && !allowed).then_some(allows)
}

fn client(settings: &StoreSettings) -> ClientOptions {
    ClientOptions::new()
        .with_connect_timeout(CONNECT)
        .with_timeout(settings.limits.call)
        .with_pool_idle_timeout(IDLE)
}

/// Two quick tries for one dropped connection or one busy answer; longer waits are made around the whole call.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: 2,
        retry_timeout: Duration::from_secs(30),
    }
}
