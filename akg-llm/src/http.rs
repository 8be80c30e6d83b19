//! JSON over HTTP, with errors that say whether to come back.

use std::error::Error as StdError;
use std::time::{Duration, SystemTime};

use akg_core::{Error, ErrorKind, Result};
use eventsource_stream::{EventStreamError, Eventsource as _};
use futures::StreamExt as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use rustls::crypto::{CryptoProvider, ring};
use serde::Serialize;
use serde_json::Value;

use crate::runtime;
use crate::secret::Secret;

/// No reply is as long as this many bytes.
const LONGEST: usize = 64 << 20;

/// An address that takes JSON.
#[derive(Debug)]
pub(crate) struct Endpoint {
    client: Client,
    url: Url,
    headers: HeaderMap,
    key: Option<Secret>,
}

impl Endpoint {
    /// The address `path` below `base`. `headers` may hold the key.
    pub(crate) fn new(
        base: &str,
        path: &str,
        headers: &[(&'static str, String)],
        key: Option<Secret>,
    ) -> Result<Self> {
        let url = address(base, path)?;
        if CryptoProvider::get_default().is_none() {
            // Another thread may have been faster; then its choice is as good.
            let _ = ring::default_provider().install_default();
        }
        let mut builder = Client::builder()
            .user_agent(concat!("akg/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(30))
            // A redirect could carry the key to somebody else.
            .redirect(redirect::Policy::none());
        if url.scheme() == "http" {
            // Machines without certificates can still talk to a server of their own.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|e| {
            Error::new(ErrorKind::Io, "cannot set up HTTPS; are certificates installed?").caused_by(e)
        })?;
        let mut map = HeaderMap::new();
        map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            let mut value = HeaderValue::from_str(value).map_err(|_| {
                Error::invalid(
                    "the key has characters that no header may have; is it whole, and without line ends?",
                )
                .with("header", name)
            })?;
            value.set_sensitive(true);
            map.insert(HeaderName::from_static(name), value);
        }
        Ok(Self {
            client,
            url,
            headers: map,
            key,
        })
    }

    /// Sends `body`, and gives the JSON that comes back.
    pub(crate) async fn ask(&self, body: &impl Serialize) -> Result<Value> {
        runtime::inside(async {
            let bytes = self.read(self.send(body).await?).await?;
            serde_json::from_slice(&bytes).map_err(|e| {
                self.unavailable(format!("the server's reply is not JSON: {e}"))
                    .with("reply", self.clip(&String::from_utf8_lossy(&bytes)))
            })
        })
        .await?
    }

    /// Sends `body`, and hands the data of each event that comes back to `each`, until it says that it was the last.
    pub(crate) async fn events(
        &self,
        body: &impl Serialize,
        each: &mut (dyn FnMut(&str) -> Result<Progress> + Send),
    ) -> Result<()> {
        runtime::inside(async {
            let response = self.send(body).await?;
            let mut events = response.bytes_stream().eventsource();
            let mut bytes = 0;
            while let Some(event) = events.next().await {
                let event = event.map_err(|e| match e {
                    EventStreamError::Transport(e) => self.transport(e),
                    other => self.unavailable(format!("the server's stream is no stream of events: {other}")),
                })?;
                bytes += event.data.len();
                if bytes > LONGEST {
                    return Err(self.too_long());
                }
                match each(&event.data)? {
                    Progress::More => {}
                    Progress::Done => return Ok(()),
                }
            }
            Err(self.unavailable("the stream broke off before the reply was complete"))
        })
        .await?
    }

    /// Says that the server sent `what` instead of a reply.
    pub(crate) fn unavailable(&self, what: impl AsRef<str>) -> Error {
        Error::new(ErrorKind::Unavailable, self.redact(what.as_ref())).with("url", &self.url)
    }

    fn too_long(&self) -> Error {
        Error::new(
            ErrorKind::Protocol,
            format!("the server's reply is longer than {LONGEST} bytes"),
        )
        .with("url", &self.url)
    }

    async fn send(&self, body: &impl Serialize) -> Result<Response> {
        let body = serde_json::to_vec(body)
            .map_err(|e| Error::unexpected("a request cannot be written as JSON").caused_by(e))?;
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(body);
        let response = request.send().await.map_err(|e| self.transport(e))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, headers) = (response.status(), response.headers().clone());
        // What an error says is worth having, but not worth another error.
        let text = self.read(response).await.unwrap_or_default();
        Err(self.refusal(status, &headers, &String::from_utf8_lossy(&text)))
    }

    async fn read(&self, response: Response) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(piece) = stream.next().await {
            bytes.extend_from_slice(&piece.map_err(|e| self.transport(e))?);
            if bytes.len() > LONGEST {
                return Err(self.too_long());
            }
        }
        Ok(bytes)
    }

    fn transport(&self, error: reqwest::Error) -> Error {
        let (kind, what) = if error.is_timeout() {
            (ErrorKind::Timeout, "the server did not answer in time")
        } else if error.is_connect() {
            (
                ErrorKind::Unavailable,
                "the server cannot be reached; is the address right?",
            )
        } else {
            (ErrorKind::Unavailable, "the connection to the server broke off")
        };
        // The address is already in the context, and what really happened is the last of the causes.
        let error = error.without_url();
        let mut last: &dyn StdError = &error;
        while let Some(cause) = last.source() {
            last = cause;
        }
        let why = last.to_string();
        Error::new(kind, what)
            .with("url", &self.url)
            .with("because", why)
            .caused_by(error)
    }

    fn refusal(&self, status: StatusCode, headers: &HeaderMap, text: &str) -> Error {
        let body: Value = serde_json::from_str(text).unwrap_or_default();
        let error = body.get("error").unwrap_or(&body);
        let said = error
            .get("message")
            .or(body.get("message"))
            .and_then(Value::as_str);
        let text_of = |name: &str| error.get(name).and_then(Value::as_str);
        let code = text_of("code").or_else(|| text_of("type"));
        let (kind, what) = kind(status, code);
        let error = Error::new(kind, what)
            .with("status", status.as_u16())
            .with("server says", self.clip(said.unwrap_or(text)))
            .with("url", &self.url);
        match retry_after(headers, SystemTime::now()) {
            Some(wait) => error.retry_in(wait),
            None => error,
        }
    }

    fn redact(&self, text: &str) -> String {
        match &self.key {
            Some(key) => key.redact(text),
            None => text.to_owned(),
        }
    }

    /// The beginning of what a server says, in one line.
    fn clip(&self, text: &str) -> String {
        let text = self.redact(text);
        let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((at, _)) = words.char_indices().nth(500) {
            words.truncate(at);
            words.push('…');
        }
        words
    }
}

/// Whether events are still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Done,
}

fn address(base: &str, path: &str) -> Result<Url> {
    let whole = format!("{}/{path}", base.trim_end_matches('/'));
    let refused = |why: &str| Err(Error::invalid(format!("the base URL of the model {why}")));
    let url = match Url::parse(&whole) {
        Ok(url) => url,
        Err(e) => return refused(&format!("is no address: {e}")),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refused("must begin with `http://` or `https://`");
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return refused("holds a name, a password or a query; give the key by itself");
    }
    Ok(url)
}

fn kind(status: StatusCode, code: Option<&str>) -> (ErrorKind, &'static str) {
    match (status.as_u16(), code) {
        (402, _) | (429, Some("insufficient_quota")) => {
            (ErrorKind::BudgetSpent, "the account at the provider is used up")
        }
        (429, _) => (ErrorKind::Unavailable, "the server limits how often it is asked"),
        (408 | 409 | 425 | 500.., _) => (ErrorKind::Unavailable, "the server failed"),
        (401 | 403, _) => (
            ErrorKind::InvalidInput,
            "the server refuses the key; is it the right one?",
        ),
        (404, _) => (
            ErrorKind::NotFound,
            "the server does not know the model, or has nothing at this address",
        ),
        (300..=399, _) => (
            ErrorKind::InvalidInput,
            "the server has moved; give its new address",
        ),
        _ => (ErrorKind::InvalidInput, "the server refuses the request"),
    }
}

/// What `Retry-After` says, in either of its forms.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        // The date of RFC 9110's example, which is 941 million seconds after 1970.
        let now = UNIX_EPOCH + Duration::from_secs(941_846_400);
        let wait = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
            retry_after(&headers, now)
        };
        assert_eq!(wait("120"), Some(Duration::from_secs(120)));
        assert_eq!(wait("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(
            wait("Sat, 06 Nov 1999 00:01:00 GMT"),
            Some(Duration::from_secs(60))
        );
        assert_eq!(wait("Sat, 06 Nov 1999 00:00:00 GMT"), Some(Duration::ZERO));
        for nonsense in ["-1", "soon", "", "NaN", "1e300"] {
            assert_eq!(wait(nonsense), None, "{nonsense}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn addresses_hold_no_secrets() {
        let good = address("http://localhost:4000/v1/", "chat/completions").unwrap();
        assert_eq!(good.as_str(), "http://localhost:4000/v1/chat/completions");
        for bad in [
            "localhost:4000",
            "ftp://x/v1",
            "http://me:pass@x/v1",
            "http://x/v1?key=hidden",
            "",
        ] {
            let error = address(bad, "p").unwrap_err().to_string();
            assert!(!error.contains("pass@") && !error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn keys_are_nowhere() {
        let key = Secret::new("sk-very-secret");
        let headers = [("authorization", format!("Bearer {}", key.reveal()))];
        let endpoint = Endpoint::new("http://localhost:1", "p", &headers, Some(key)).unwrap();
        let text = r#"{"error": {"message": "Incorrect API key provided: sk-very-secret."}}"#;
        let error = endpoint.refusal(StatusCode::UNAUTHORIZED, &HeaderMap::new(), text);
        let cut = endpoint.refusal(StatusCode::BAD_REQUEST, &HeaderMap::new(), "sk-very-secret");
        for shown in [
            format!("{endpoint:?}"),
            format!("{error:?}"),
            format!("{cut} {cut:?}"),
        ] {
            assert!(!shown.contains("very-secret"), "{shown}");
        }
        assert!(
            error.to_string().contains("Incorrect API key provided: [key]"),
            "{error}"
        );
    }
}
