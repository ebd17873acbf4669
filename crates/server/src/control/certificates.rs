//! The verb `certificates.ls`: the certificates that are in use, and how long they hold.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use stentor_control::certificates::{Certificate as Shown, Files as Held, List, Listener, Purpose};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::X509Certificate;

use super::{Admin, lock};
use crate::clock::unix_secs;
use crate::transport::{Certificate, Demand};

/// Certificates that an answer has, and names of one of them: a file of authorities may have
/// hundreds.
const CERTIFICATES_MAX: usize = 1_000;
const NAMES_MAX: usize = 100;

/// Characters of a name that are shown: whoever signs a certificate chooses them.
const CHARS_MAX: usize = 1_024;

const SECS_A_DAY: i64 = 24 * 60 * 60;

/// The certificates of all encrypted listeners, and of HTTP. Reads their files.
pub(super) fn list(admin: &Admin) -> List {
    let (ports, (http_urls, http_tls)) = {
        let notes = lock(&admin.notes);
        let ports = notes.ports.iter().chain(&notes.call_ports);
        let ports: Vec<_> = ports.map(Arc::clone).collect();
        (ports, notes.http.clone())
    };
    let mut list = List::default();
    let mut left = CERTIFICATES_MAX;
    let ports = ports.iter().filter_map(|port| {
        let certificate = port.rules.load().certificate.clone();
        Some((port.url.to_string(), certificate?))
    });
    let http = http_tls.load_full();
    let http = { &http_urls }.iter().filter_map(|url| {
        let certificate = http.as_deref().cloned();
        Some((url.clone(), certificate?))
    });
    for (url, certificate) in ports.chain(http) {
        let listener = describe(url, &certificate, left);
        let (chain, authorities) = certificate.parts();
        list.truncated |= listener.certificates.len() < chain.len() + authorities.len();
        left -= listener.certificates.len();
        list.listeners.push(listener);
    }
    list
}

fn describe(url: String, certificate: &Certificate, at_most: usize) -> Listener {
    let files = certificate.files();
    let (held, problem) = match certificate.read_again() {
        Ok(again) if again == *certificate => (Held::InUse, None),
        Ok(_) => (Held::Newer, None),
        Err(why) => (Held::Unusable, Some(why)),
    };
    let (chain, authorities) = certificate.parts();
    let own = |at: usize| match at {
        0 => Purpose::Server,
        _ => Purpose::Chain,
    };
    let chain = { chain.iter().enumerate() }.map(|(at, it)| (own(at), it));
    let authorities = authorities.iter().map(|it| (Purpose::ClientAuthority, it));
    let now = now_secs();
    let shown = chain.chain(authorities).take(at_most);
    Listener {
        url,
        certificate_file: files.certificate.display().to_string(),
        key_file: files.key.display().to_string(),
        client_ca_file: { &files.clients }
            .as_ref()
            .map(|(_, ca)| ca.display().to_string()),
        client_certificate_required: matches!(files.clients, Some((Demand::Required, _))),
        files: held,
        problem,
        certificates: shown
            .map(|(purpose, it)| shown_of(purpose, it, now))
            .collect(),
    }
}

fn now_secs() -> i64 {
    i64::try_from(unix_secs(SystemTime::now())).unwrap_or(i64::MAX)
}

fn shown_of(purpose: Purpose, der: &[u8], now: i64) -> Shown {
    let parsed = match x509_parser::parse_x509_certificate(der) {
        Ok((_, parsed)) => parsed,
        Err(error) => {
            return Shown {
                purpose,
                problem: Some(error.to_string()),
                ..Shown::default()
            };
        }
    };
    let validity = parsed.validity();
    let (names, names_left_out) = names(&parsed);
    let not_after = validity.not_after.timestamp();
    Shown {
        purpose,
        subject: shortened(&parsed.subject().to_string()),
        names,
        names_left_out,
        issuer: shortened(&parsed.issuer().to_string()),
        serial: shortened(&parsed.raw_serial_as_string().replace(':', "")),
        not_before_secs: validity.not_before.timestamp(),
        not_after_secs: not_after,
        days_left: (not_after - now).div_euclid(SECS_A_DAY),
        problem: None,
    }
}

/// Some names, and how many there are besides.
fn names(parsed: &X509Certificate<'_>) -> (Vec<String>, usize) {
    let found = parsed.subject_alternative_name().ok().flatten();
    let mut all = found.iter().flat_map(|it| &it.value.general_names);
    let names = all.by_ref().take(NAMES_MAX).map(name).collect();
    (names, all.count())
}

fn name(name: &GeneralName<'_>) -> String {
    let text = match name {
        GeneralName::DNSName(name) => format!("DNS:{name}"),
        GeneralName::RFC822Name(name) => format!("email:{name}"),
        GeneralName::URI(name) => format!("URI:{name}"),
        GeneralName::IPAddress(bytes) => match address(bytes) {
            Some(address) => format!("IP:{address}"),
            None => "IP:?".to_owned(),
        },
        other => other.to_string(),
    };
    shortened(&text)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four: Option<[u8; 4]> = bytes.try_into().ok();
    let sixteen: Option<[u8; 16]> = bytes.try_into().ok();
    four.map(IpAddr::from).or_else(|| sixteen.map(IpAddr::from))
}

/// A text, or its beginning, with a sign that it goes on.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => text[..end].to_owned() + "…",
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn a_certificate_is_shown_with_its_names_and_days() {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        let address = IpAddr::from([192, 0, 2, 7]);
        params.subject_alt_names.push(SanType::IpAddress(address));
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 31);
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let end = 1_580_428_800;
        let days = |now| shown_of(Purpose::Server, made.der(), now).days_left;
        assert_eq!(days(end - 2 * SECS_A_DAY), 2);
        assert_eq!((days(end - 1), days(end + 1)), (0, -1));
        let shown = shown_of(Purpose::Server, made.der(), end);
        assert_eq!(shown.names, ["DNS:a.example", "IP:192.0.2.7"]);
        let dates = (shown.not_before_secs, shown.not_after_secs);
        assert_eq!(dates, (end - 30 * SECS_A_DAY, end));
        assert!(shown.serial.len() >= 16 && !shown.serial.contains(':'));
        assert_eq!(shown.names_left_out, 0);
        let problem = shown_of(Purpose::Chain, b"no certificate", 0).problem;
        assert!(problem.is_some());
    }

    #[test]
    fn what_is_left_out_of_a_certificate_is_told() {
        let names: Vec<String> = (0..NAMES_MAX + 3)
            .map(|at| format!("h{at}.example"))
            .collect();
        let mut params = CertificateParams::new(names).unwrap();
        let subject = "x".repeat(CHARS_MAX);
        params.distinguished_name.push(DnType::CommonName, subject);
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let shown = shown_of(Purpose::Server, made.der(), 0);
        assert_eq!((shown.names.len(), shown.names_left_out), (NAMES_MAX, 3));
        let is_cut = shown.subject.ends_with("x…");
        assert!(is_cut && shown.subject.chars().count() == CHARS_MAX + 1);
    }
}
