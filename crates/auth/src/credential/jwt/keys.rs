//! The keys that tokens are signed by.

use std::collections::HashSet;
use std::fmt;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, Header};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use x509_parser::asn1_rs::{Any, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::RSAPublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;
use zeroize::Zeroizing;

use super::KeySource;

/// The largest file of keys that is read.
pub const KEY_FILE_BYTES_MAX: u64 = 1 << 20;

/// Keys in a set.
const KEYS_MAX: usize = 100;

/// The shortest secret for HMAC: RFC 7518, 3.2 asks for as many bytes as the digest has.
const SECRET_BYTES_MIN: usize = 32;

/// The bits of an RSA key: RFC 7518, 3.3 asks for the least, and no signature by a longer one is
/// checked.
const RSA_BITS: RangeInclusive<usize> = 2_048..=8_192;

/// How long every Ed25519 key is.
const ED_BYTES: usize = 32;

/// Why no other key of EdDSA is taken.
const ED25519_ONLY: &str =
    "for EdDSA, only Ed25519 keys can be used; sign the tokens with such a key";

/// The keys of one issuer.
#[derive(Clone)]
pub struct Keys {
    keys: Vec<Key>,
    algorithms: HashSet<Algorithm>,
    /// Of what the file held.
    digest: [u8; 32],
}

/// Two are equal when their files held the same, for the same algorithms.
impl PartialEq for Keys {
    fn eq(&self, other: &Self) -> bool {
        (self.digest, &self.algorithms) == (other.digest, &other.algorithms)
    }
}

impl Eq for Keys {}

#[derive(Clone)]
struct Key {
    id: Option<String>,
    /// The one algorithm that its set gives it, or that goes with its curve.
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

/// Leaves out the keys.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("count", &self.keys.len())
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}

/// Why a file with keys cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// It is not what it should be.
    #[error("{path} cannot be used: {reason}")]
    Content {
        /// The file.
        path: String,
        /// What is wrong and what to do.
        reason: &'static str,
    },
}

/// Makes `jsonwebtoken` use aws-lc, whatever else some dependency has switched on in it.
pub(super) fn install() {
    // Somebody has done it already: that is as good.
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
}

impl Keys {
    /// Reads keys. `algorithms` are the ones that tokens may be signed with; none: all that the
    /// keys are made for, except HMAC, which has to be asked for by name: a public key must never
    /// be taken for a secret.
    ///
    /// # Errors
    /// When the file cannot be read or holds no key for these algorithms.
    pub fn read(source: &KeySource, algorithms: &[Algorithm]) -> Result<Self, KeyError> {
        install();
        let (KeySource::File(path) | KeySource::Jwks(path)) = source;
        let bytes = read(path)?;
        let content = |reason| KeyError::Content {
            path: path.display().to_string(),
            reason,
        };
        let parsed = match source {
            KeySource::File(_) => single(&bytes, algorithms).map(|key| vec![key]),
            KeySource::Jwks(_) => set(&bytes),
        };
        let keys = parsed.map_err(content)?;
        let algorithms: HashSet<Algorithm> = if algorithms.is_empty() {
            let families = keys.iter().map(|key| key.key.family());
            let usable = families.filter(|family| *family != AlgorithmFamily::Hmac);
            usable
                .flat_map(|family| family.algorithms().to_vec())
                .collect()
        } else {
            algorithms.iter().copied().collect()
        };
        let keys = Self {
            keys,
            algorithms,
            digest: Sha256::digest(&bytes).into(),
        };
        let is_usable = |key: &Key| {
            let mut allowed = keys.algorithms.iter();
            allowed.any(|algorithm| key.is_for(*algorithm))
        };
        if !keys.keys.iter().any(is_usable) {
            return Err(content(
                "none of its keys is for one of the algorithms that are allowed; name its own in \
                 `algorithms` (ES256 goes with the curve P-256, ES384 with P-384)",
            ));
        }
        Ok(keys)
    }

    /// The keys that may have made a signature with this header.
    pub(super) fn fitting<'a>(
        &'a self,
        header: &'a Header,
    ) -> impl Iterator<Item = &'a DecodingKey> {
        let is_allowed = self.algorithms.contains(&header.alg);
        let fits = move |key: &&Key| {
            is_allowed
                && key.is_for(header.alg)
                && match (&key.id, &header.kid) {
                    (Some(id), Some(wanted)) => id == wanted,
                    // An issuer that does not name keys has few of them.
                    (None, _) | (_, None) => true,
                }
        };
        self.keys.iter().filter(fits).map(|key| &key.key)
    }
}

impl Key {
    /// Whether it can check a signature by this algorithm.
    fn is_for(&self, algorithm: Algorithm) -> bool {
        self.key.family() == algorithm.family() && self.algorithm.is_none_or(|own| own == algorithm)
    }
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let failed = |reason: String| KeyError::Read {
        path: path.display().to_string(),
        reason,
    };
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(KEY_FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > KEY_FILE_BYTES_MAX {
        return Err(failed("it is larger than 1 MiB".to_owned()));
    }
    Ok(bytes)
}

/// A key in a file of its own.
fn single(bytes: &[u8], algorithms: &[Algorithm]) -> Result<Key, &'static str> {
    let is_hmac = |algorithm: &Algorithm| algorithm.family() == AlgorithmFamily::Hmac;
    let is_pem = bytes.trim_ascii_start().starts_with(b"-----BEGIN");
    let key = if algorithms.iter().any(is_hmac) {
        if !algorithms.iter().all(is_hmac) {
            return Err("a key is either a secret for HS algorithms or a public key for others");
        }
        if is_pem {
            return Err("it is a PEM file and no secret for HS algorithms");
        }
        DecodingKey::from_secret(bytes.trim_ascii_end())
    } else if is_pem {
        check_pem(bytes)?;
        check_kind(bytes)?;
        DecodingKey::from_rsa_pem(bytes)
            .or_else(|_| DecodingKey::from_ec_pem(bytes))
            .or_else(|_| DecodingKey::from_ed_pem(bytes))
            .map_err(|_| "it is not a public key of RSA, ECDSA or EdDSA in PEM format")?
    } else {
        return Err(
            "it is not a PEM file (BEGIN PUBLIC KEY); for a secret, name the HS algorithms in \
             `algorithms`",
        );
    };
    let curve = if is_pem { Curve::of_pem(bytes) } else { None };
    Ok(Key {
        id: None,
        algorithm: judge(&key, curve)?,
        key,
    })
}

/// Refuses a file in which there is more, or less, than the one public key that is asked for: what
/// is read of it could not check a single token, or would leave the other keys out.
fn check_pem(bytes: &[u8]) -> Result<(), &'static str> {
    let has = |label: &[u8]| bytes.windows(label.len()).any(|piece| piece == label);
    if has(b"PRIVATE KEY-----") {
        return Err(
            "it is a private key, which stays with whoever signs; make the public one of it with \
             `openssl pkey -in FILE -pubout`",
        );
    }
    let begin = b"-----BEGIN";
    let blocks = bytes.windows(begin.len()).filter(|piece| *piece == begin);
    if blocks.count() > 1 {
        return Err(
            "it holds several keys; give each a [[jwt]] of its own, or make a key set of them \
             (`jwks_file`)",
        );
    }
    Ok(())
}

/// Refuses keys that are well made, and of a kind that cannot be used here.
fn check_kind(bytes: &[u8]) -> Result<(), &'static str> {
    const EC: &str = "1.2.840.10045.2.1";
    const X25519: &str = "1.3.101.110";
    const X448: &str = "1.3.101.111";
    const ED448: &str = "1.3.101.113";
    let names_curve = |parameters: Option<&Any<'_>>| {
        // What is written out is a sequence.
        parameters.is_some_and(|parameters| parameters.tag() == Tag::Oid)
    };
    let check = |key: &SubjectPublicKeyInfo<'_>| {
        let algorithm = &key.algorithm;
        match algorithm.algorithm.to_id_string().as_str() {
            ED448 => Err(ED25519_ONLY),
            X25519 | X448 => Err(
                "it is a key for agreeing on secrets, by which nothing is signed; give the public \
                 key of the one that signs the tokens",
            ),
            EC if !names_curve(algorithm.parameters.as_ref()) => Err(
                "it writes its curve out instead of naming it; rewrite the key with `openssl ec \
                 -pubin -in FILE -pubout -param_enc named_curve`",
            ),
            _ => Ok(()),
        }
    };
    with_public_key(bytes, check).unwrap_or(Ok(()))
}

/// Reads the public key of a PEM file or of the certificate in it; `None` if there is none.
fn with_public_key<T>(bytes: &[u8], f: impl FnOnce(&SubjectPublicKeyInfo<'_>) -> T) -> Option<T> {
    let (_, pem) = parse_x509_pem(bytes).ok()?;
    if pem.label == "CERTIFICATE" {
        let (_, certificate) = X509Certificate::from_der(&pem.contents).ok()?;
        return Some(f(&certificate.tbs_certificate.subject_pki));
    }
    let (_, key) = SubjectPublicKeyInfo::from_der(&pem.contents).ok()?;
    Some(f(&key))
}

/// The curves of ECDSA that can be used.
#[derive(Clone, Copy)]
enum Curve {
    P256,
    P384,
}

impl Curve {
    /// The curve that a public key or certificate names; `None` if it is another one. The point
    /// alone does not tell: on secp256k1 it is as long as on P-256.
    fn of_pem(bytes: &[u8]) -> Option<Self> {
        let named = with_public_key(bytes, |key| {
            let name = key.algorithm.parameters.as_ref()?.as_oid().ok()?;
            match name.to_id_string().as_str() {
                "1.2.840.10045.3.1.7" => Some(Self::P256),
                "1.3.132.0.34" => Some(Self::P384),
                _ => None,
            }
        });
        named.flatten()
    }

    const fn of_jwk(parameters: &AlgorithmParameters) -> Option<Self> {
        match parameters {
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => Some(Self::P256),
                EllipticCurve::P384 => Some(Self::P384),
                _ => None,
            },
            _ => None,
        }
    }

    /// The one algorithm that goes with it (RFC 7518, 3.4).
    const fn algorithm(self) -> Algorithm {
        match self {
            Self::P256 => Algorithm::ES256,
            Self::P384 => Algorithm::ES384,
        }
    }

    /// Whether a point on it is so long: both coordinates, or one and the sign of the other.
    fn has_points_of(self, bytes: usize) -> bool {
        let coordinate = match self {
            Self::P256 => 32,
            Self::P384 => 48,
        };
        [1 + coordinate, 1 + 2 * coordinate].contains(&bytes)
    }
}

/// The one algorithm that a key can be used by, if there is only one. Refuses a key by which no
/// signature would ever be found right, or by which others could make one: better now, and with the
/// reason.
fn judge(key: &DecodingKey, curve: Option<Curve>) -> Result<Option<Algorithm>, &'static str> {
    let bytes = key.try_get_as_bytes().map_or(0, <[u8]>::len);
    match key.family() {
        AlgorithmFamily::Hmac if bytes < SECRET_BYTES_MIN => {
            Err("a secret for HS algorithms needs at least 32 bytes")
        }
        AlgorithmFamily::Rsa if !RSA_BITS.contains(&modulus_bits(key)) => {
            Err("an RSA key has 2,048 to 8,192 bits; sign the tokens with such a key")
        }
        AlgorithmFamily::Ec => {
            let curve = curve.filter(|curve| curve.has_points_of(bytes)).ok_or(
                "for ECDSA, only keys on the curves P-256 (ES256) and P-384 (ES384) can be used; \
                 sign the tokens with such a key",
            )?;
            Ok(Some(curve.algorithm()))
        }
        AlgorithmFamily::Ed if bytes != ED_BYTES => Err(ED25519_ONLY),
        AlgorithmFamily::Hmac | AlgorithmFamily::Rsa | AlgorithmFamily::Ed => Ok(None),
    }
}

/// The bits of the modulus of an RSA key; 0 if it cannot be read.
fn modulus_bits(key: &DecodingKey) -> usize {
    let modulus = match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, .. } => n,
        DecodingKeyKind::SecretOrDer(der) => match RSAPublicKey::from_der(der) {
            Ok((_, key)) => key.modulus,
            Err(_) => return 0,
        },
    };
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let Some(first) = modulus.get(zeros) else {
        return 0;
    };
    8 * (modulus.len() - zeros) - first.leading_zeros() as usize
}

/// The keys of a set; those that cannot be used here are left out (RFC 7517, 5).
fn set(bytes: &[u8]) -> Result<Vec<Key>, &'static str> {
    // One entry that is not understood must not spoil the others.
    #[derive(serde::Deserialize)]
    struct Entries {
        keys: Vec<serde_json::Value>,
    }
    let entries: Entries = serde_json::from_slice(bytes)
        .map_err(|_| "it is not a JSON Web Key Set, like {\"keys\": […]}")?;
    if entries.keys.len() > KEYS_MAX {
        return Err("it holds more than 100 keys");
    }
    let parsed = entries.keys.into_iter().filter_map(|entry| {
        let jwk = serde_json::from_value::<Jwk>(entry).ok()?;
        let set = JwkSet { keys: vec![jwk] };
        set.keys.first().and_then(usable)
    });
    let keys: Vec<Key> = parsed.collect();
    if keys.is_empty() {
        return Err(
            "it holds no key for signatures by RSA (at least 2,048 bits), ECDSA (on P-256 or \
             P-384), EdDSA (Ed25519) or HMAC (at least 32 bytes)",
        );
    }
    Ok(keys)
}

fn usable(jwk: &Jwk) -> Option<Key> {
    if matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption)) {
        return None;
    }
    let algorithm = match jwk.common.key_algorithm {
        Some(algorithm) => Some(algorithm.to_string().parse::<Algorithm>().ok()?),
        None => None,
    };
    let key = DecodingKey::from_jwk(jwk).ok()?;
    let only = judge(&key, Curve::of_jwk(&jwk.algorithm)).ok()?;
    if let (Some(algorithm), Some(only)) = (algorithm, only)
        && algorithm != only
    {
        return None;
    }
    Some(Key {
        id: jwk.common.key_id.clone(),
        algorithm: algorithm.or(only),
        key,
    })
}
