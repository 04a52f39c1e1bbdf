//! The HTTP side: one POST, its limits, and words for what can go wrong on the way.

use std::io;
use std::time::Duration;

use super::answer::{self, Answer, Trouble};
use observe::body::read_body;

/// Largest answer taken, after decompression. Asked for less when it is exceeded.
const BODY_BYTES_MAX: u64 = 256 << 20;

/// A server that answers queries.
pub struct Client {
    agent: ureq::Agent,
    base: String,
    headers: Vec<(String, String)>,
    timeout: Duration,
}

impl Client {
    /// `url` with or without `http://` and a path before `/api/v1`; `headers` as "Name: value".
    ///
    /// # Errors
    /// A URL or header that is none.
    pub fn new(url: &str, headers: &[String], timeout: Duration) -> Result<Client, String> {
        let base = base_of(url)?;
        let split = |text: &String| match text.split_once(':') {
            Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
            None => Err(format!("--header {text}: write NAME: VALUE")),
        };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .user_agent("highwater");
        let config = match is_loopback(&base) {
            // No proxy stands before this machine, and packing costs more than the bytes (measured: 1.9 s
            // for 34 MB).
            true => config.proxy(None).accept_encoding(""),
            false => config,
        };
        Ok(Client {
            agent: ureq::Agent::new_with_config(config.build()),
            base,
            headers: headers.iter().map(split).collect::<Result<_, _>>()?,
            timeout,
        })
    }

    /// Asks `query` or `query_range` with these parameters.
    pub fn series(&self, path: &str, form: &[(&str, String)]) -> Result<Answer, Trouble> {
        let (status, body) = self.post(path, form)?;
        answer::parse_series(status, &body).map_err(|trouble| self.named(trouble))
    }

    /// Names of all metrics.
    pub fn names(&self) -> Result<Vec<String>, Trouble> {
        let url = format!("{}/api/v1/label/__name__/values", self.base);
        let mut request = self.agent.get(&url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let (status, body) = self.read(request.call())?;
        answer::parse_names(status, &body).map_err(|trouble| self.named(trouble))
    }

    /// A form in the body, because a matcher may be longer than a URL can be.
    fn post(&self, path: &str, form: &[(&str, String)]) -> Result<(u16, Vec<u8>), Trouble> {
        let mut request = self.agent.post(format!("{}/api/v1/{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let form = form.iter().map(|(key, value)| (*key, value.as_str()));
        self.read(request.send_form(form))
    }

    fn read(
        &self,
        response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<(u16, Vec<u8>), Trouble> {
        let mut response = response.map_err(|error| self.trouble(&error))?;
        let body = read_body(response.body_mut(), BODY_BYTES_MAX);
        let body = body.map_err(|error| self.trouble(&error))?;
        Ok((response.status().as_u16(), body))
    }

    /// A limit that an answer exceeds, with the server that gave it.
    fn named(&self, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Beyond(limit) => Trouble::TooMuch(format!(
                "one answer of {} holds more than {limit}; ask for less (a shorter window, a larger --step, more \
                 --match)",
                self.base
            )),
            other => other,
        }
    }

    fn trouble(&self, error: &ureq::Error) -> Trouble {
        let base = &self.base;
        let refused = |words: String| Trouble::Refused(words);
        match error {
            ureq::Error::BodyExceedsLimit(limit) => Trouble::TooMuch(format!(
                "one answer of {base} is larger than {} MiB after decompression; ask for less (a shorter window, a \
                 larger --step, more --match)",
                limit >> 20
            )),
            ureq::Error::Timeout(_) => Trouble::TooMuch(format!(
                "{base} did not answer within {} s; ask for less (a shorter window, a larger --step, \
                 more --match), or wait longer with --timeout",
                self.timeout.as_secs()
            )),
            ureq::Error::RedirectFailed | ureq::Error::TooManyRedirects => refused(format!(
                "{base} sends questions on to another address (a login, or https?); give that one, or --header"
            )),
            ureq::Error::HostNotFound => {
                refused(format!("{base}: no such host; is it spelt right?"))
            }
            ureq::Error::Io(io) if io.kind() == io::ErrorKind::ConnectionRefused => {
                refused(format!(
                    "nothing listens at {base}: does it run, and is this its port (9090 is Prometheus' own, \
                 8428 that of VictoriaMetrics)?"
                ))
            }
            ureq::Error::Io(io) if io.kind() == io::ErrorKind::UnexpectedEof => refused(format!(
                "the answer of {base} breaks off; something between here and the server cut it, try again"
            )),
            other => refused(format!("{base}: {other}")),
        }
    }
}

/// Scheme, host and path prefix, without what the API itself adds.
fn base_of(url: &str) -> Result<String, String> {
    let url = url.trim();
    let url = match url.contains("://") {
        true => url.to_owned(),
        false => format!("http://{url}"),
    };
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let url = url.split("/api/v1").next().unwrap_or_default();
    let url = url.trim_end_matches('/');
    let host = url.split("://").nth(1).unwrap_or("");
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    if !is_http || host.is_empty() || host.starts_with('/') || host.contains(' ') {
        return Err("write it as http://HOST:PORT".to_owned());
    }
    Ok(url.to_owned())
}

fn is_loopback(base: &str) -> bool {
    let host = base.split("://").nth(1).unwrap_or("");
    ["127.", "localhost", "[::1]"]
        .iter()
        .any(|own| host.starts_with(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_people_write_them() {
        for (url, base) in [
            ("127.0.0.1:9090", "http://127.0.0.1:9090"),
            ("http://h:9090/", "http://h:9090"),
            (
                "https://h/prometheus/api/v1/query?x=1",
                "https://h/prometheus",
            ),
        ] {
            assert_eq!(base_of(url).as_deref(), Ok(base));
        }
        for bad in ["", "http://", "ftp://h", "a b", "/tmp/x"] {
            assert!(base_of(bad).is_err(), "{bad}");
        }
        assert!(is_loopback("http://127.0.0.1:9090") && !is_loopback("http://10.0.0.1"));
    }
}
