//! Sends batches to a collector: OTLP over HTTP and TLS.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::processor::Export;
use super::{Ended, wire};

/// A collector that has not answered by then has lost the batch.
const TIMEOUT: Duration = Duration::from_secs(10);

pub struct Otlp {
    agent: ureq::Agent,
    url: String,
}

impl Otlp {
    /// `collector` is `host:port`; its certificate must have been signed by that of `authority_pem`.
    ///
    /// # Errors
    /// When `authority_pem` holds no certificate.
    pub fn new(collector: &str, authority_pem: &[u8]) -> Result<Otlp> {
        let authority = Certificate::from_pem(authority_pem).context("no certificate in PEM")?;
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&[authority]))
            .build();
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(TIMEOUT))
            .build();
        Ok(Otlp {
            agent: config.into(),
            url: format!("https://{collector}/v1/traces"),
        })
    }
}

impl Export for Otlp {
    fn export(&mut self, batch: &[Ended]) -> Result<()> {
        let post = self
            .agent
            .post(&self.url)
            .header("content-type", "application/x-protobuf");
        let mut answer = post
            .send(&wire::encode(batch)[..])
            .with_context(|| format!("POST {}", self.url))?;
        // To its end, or the connection cannot be used again.
        let body = answer.body_mut().read_to_vec().context("its answer")?;
        ensure!(body.len() < 1 << 16, "an answer of {} bytes", body.len());
        Ok(())
    }
}
