//! The keys that tokens are signed by.

use std::collections::HashSet;
use std::fmt;
use std::io::Read;
use std::path::Path;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

use super::KeySource;

/// The largest file of keys that is read.
pub const KEY_FILE_BYTES_MAX: u64 = 1 << 20;

/// Keys in a set.
const KEYS_MAX: usize = 100;

/// The shortest secret for HMAC: RFC 7518, 3.2 asks for as many bytes as the digest has.
const SECRET_BYTES_MIN: usize = 32;

/// What the modulus alone of the shortest RSA key takes, 2,048 bits (RFC 7518, 3.3).
const RSA_BYTES_MIN: usize = 256;

/// The same in base64 without padding, as a key set has it.
const RSA_BASE64_MIN: usize = 342;

/// The points of P-256 and P-384: how they are written, and both coordinates or one.
const EC_POINT_BYTES: [usize; 4] = [65, 97, 33, 49];

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
    /// The one algorithm that its set gives it.
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
    #[error("{path} is of no use: {reason}")]
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
            let family = key.key.family();
            keys.algorithms
                .iter()
                .any(|algorithm| algorithm.family() == family)
        };
        if !keys.keys.iter().any(is_usable) {
            return Err(content(
                "none of its keys is for one of the algorithms that are allowed",
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
                && key.key.family() == header.alg.family()
                && key
                    .algorithm
                    .is_none_or(|algorithm| algorithm == header.alg)
                && match (&key.id, &header.kid) {
                    (Some(id), Some(wanted)) => id == wanted,
                    // Whoever does not name keys has few of them.
                    (None, _) | (_, None) => true,
                }
        };
        self.keys.iter().filter(fits).map(|key| &key.key)
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
        let secret = bytes.trim_ascii_end();
        if secret.len() < SECRET_BYTES_MIN {
            return Err("a secret for HS algorithms needs at least 32 bytes");
        }
        DecodingKey::from_secret(secret)
    } else if is_pem {
        check_pem(bytes)?;
        DecodingKey::from_rsa_pem(bytes)
            .or_else(|_| DecodingKey::from_ec_pem(bytes))
            .or_else(|_| DecodingKey::from_ed_pem(bytes))
            .map_err(|_| "it is no public key of RSA, ECDSA or EdDSA in PEM format")
            .and_then(strong)?
    } else {
        return Err(
            "it is no PEM file (BEGIN PUBLIC KEY); for a secret, name the HS algorithms in \
             `algorithms`",
        );
    };
    Ok(Key {
        id: None,
        algorithm: None,
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

/// Refuses a key by which no signature would ever be found right: better now, and with the reason.
fn strong(key: DecodingKey) -> Result<DecodingKey, &'static str> {
    let bytes = key.try_get_as_bytes().map_or(0, <[u8]>::len);
    match key.family() {
        AlgorithmFamily::Rsa if bytes < RSA_BYTES_MIN => {
            Err("an RSA key needs at least 2,048 bits")
        }
        AlgorithmFamily::Ec if !EC_POINT_BYTES.contains(&bytes) => {
            Err("of ECDSA, only keys on the curves P-256 and P-384 can be used")
        }
        _ => Ok(key),
    }
}

/// The keys of a set; those that cannot be used here are left out (RFC 7517, 5).
fn set(bytes: &[u8]) -> Result<Vec<Key>, &'static str> {
    // One entry that is not understood must not spoil the others.
    #[derive(serde::Deserialize)]
    struct Entries {
        keys: Vec<serde_json::Value>,
    }
    let entries: Entries = serde_json::from_slice(bytes)
        .map_err(|_| "it is no JSON Web Key Set, like {\"keys\": […]}")?;
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
        return Err("it holds no key for signatures by RSA, ECDSA, EdDSA or HMAC");
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
    let is_weak = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) => rsa.n.len() < RSA_BASE64_MIN,
        AlgorithmParameters::EllipticCurve(ec) => {
            !matches!(ec.curve, EllipticCurve::P256 | EllipticCurve::P384)
        }
        _ => false,
    };
    if is_weak {
        return None;
    }
    let is_short = key.family() == AlgorithmFamily::Hmac
        && key
            .try_get_as_bytes()
            .map_or(true, |secret| secret.len() < SECRET_BYTES_MIN);
    (!is_short).then(|| Key {
        id: jwk.common.key_id.clone(),
        algorithm,
        key,
    })
}
