//! The body of a request.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::Body;
use hyper::HeaderMap;
use hyper::body::Body as _;
use hyper::header::CONTENT_TYPE;
use tokio::time::timeout;

use crate::bounds::BODY_TIME;
use crate::problem::{Problem, problem};

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBody {
    /// It has more than this many bytes.
    TooLarge(usize),
    /// It did not come in time.
    Late,
    /// The connection has ended within it.
    Broken,
}

/// Whether the body is JSON, as the headers say. A form of a web page cannot say so.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(one), None) = (types.next(), types.next()) else {
        return false;
    };
    let Ok(text) = one.to_str() else {
        return false;
    };
    let mut parts = text.split(';').map(str::trim);
    let is_json = parts
        .next()
        .is_some_and(|name| name.eq_ignore_ascii_case("application/json"));
    let is_utf8 = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        !name.trim().eq_ignore_ascii_case("charset")
            || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
    };
    is_json && parts.all(is_utf8)
}

/// The answer to somebody whose body is not there.
pub(crate) fn no_body(why: NoBody) -> Problem {
    match why {
        NoBody::TooLarge(max) => {
            let detail = format!("the body has more than {} KiB", max / 1024);
            problem("too-large", detail)
        }
        NoBody::Late => problem("slow-body", "the body did not come within 10 seconds"),
        NoBody::Broken => problem("bad-request", "the body has no end"),
    }
}

/// The whole body, of this many bytes at most.
///
/// # Errors
/// When it is too large, or does not come.
pub(crate) async fn whole(body: Body, bytes_max: usize) -> Result<Vec<u8>, NoBody> {
    timeout(BODY_TIME, gather(body, bytes_max))
        .await
        .unwrap_or(Err(NoBody::Late))
}

async fn gather(mut body: Body, bytes_max: usize) -> Result<Vec<u8>, NoBody> {
    let mut bytes = Vec::new();
    loop {
        let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let frame = match frame {
            None => return Ok(bytes),
            Some(frame) => frame.map_err(|_| NoBody::Broken)?,
        };
        // Trailers come behind the data, and say nothing here.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > bytes_max {
            return Err(NoBody::TooLarge(bytes_max));
        }
        bytes.extend_from_slice(&data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_is_json() {
        for (header, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=UTF-8", true),
            ("application/json;charset=\"utf-8\"", true),
            ("application/json; charset=latin1", false),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
            ("application/jsonp", false),
            ("text/plain; application/json", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, header.parse().expect("a header"));
            assert_eq!(is_json(&headers), expected, "{header}");
            headers.append(CONTENT_TYPE, header.parse().expect("a header"));
            assert!(!is_json(&headers), "two of them: {header}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
