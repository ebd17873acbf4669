//! The standard strings of password hashes.

use std::fmt;

use ::base64::Engine as _;
use ::base64::alphabet;
use ::base64::engine::DecodePaddingMode;
use ::base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::{Argon2Kind, Cost, HASH_BYTES_MAX, HASH_BYTES_MIN, PasswordHash, SALT_BYTES_MAX, Sha};
use crate::credential::{CredentialError, base64, number};

/// Which of several ways of writing the same hash a text had, so that it is written back as it
/// was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The usual one of each function: PHC, or bcrypt's own.
    Modular,
    /// Of passlib: `$pbkdf2-sha256$29000$SALT$HASH`.
    Passlib,
    /// Of mosquitto: `$7$101$SALT$HASH`.
    Mosquitto,
    /// bcrypt under an older or another name: `$2a$` or `$2y$`.
    Bcrypt(char),
}

/// bcrypt's own base64: another alphabet, and bits that nobody looks at in the last character.
const BCRYPT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::BCRYPT,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

const fn malformed(kind: &'static str, reason: &'static str) -> CredentialError {
    CredentialError::Malformed { kind, reason }
}

/// Reads any of the forms.
pub(super) fn parse(text: &str) -> Result<PasswordHash, CredentialError> {
    let mut fields = text.split('$');
    // What stands before the first `$`.
    if fields.next() != Some("") {
        return Err(CredentialError::Unknown);
    }
    let name = fields.next().unwrap_or_default();
    let fields: Vec<&str> = fields.take(6).collect();
    match name {
        "argon2id" => argon2(Argon2Kind::Id, &fields),
        "argon2i" => argon2(Argon2Kind::I, &fields),
        "pbkdf2-sha256" => pbkdf2(Sha::Sha256, &fields),
        "pbkdf2-sha512" => pbkdf2(Sha::Sha512, &fields),
        "scrypt" => scrypt(&fields),
        "2a" => bcrypt('a', &fields),
        "2b" => bcrypt('b', &fields),
        "2y" => bcrypt('y', &fields),
        "6" => mosquitto(Cost::Sha512, &fields),
        "7" => mosquitto_pbkdf2(&fields),
        _ => Err(CredentialError::Unknown),
    }
}

/// A hash whose parts were read.
fn whole(form: Form, cost: Cost, salt: &str, hash: &str) -> Result<PasswordHash, CredentialError> {
    let kind = cost.name();
    let cost = cost.check()?;
    let salt = base64::decode(kind, salt, SALT_BYTES_MAX)?;
    let hash = base64::decode(kind, hash, HASH_BYTES_MAX)?;
    if hash.len() < HASH_BYTES_MIN {
        return Err(malformed(kind, "the hash is too short"));
    }
    if salt.len() < 8 && matches!(cost, Cost::Argon2 { .. }) {
        return Err(malformed(kind, "the salt is too short"));
    }
    Ok(PasswordHash {
        form,
        cost,
        salt,
        hash,
    })
}

/// The parameters `a=1,b=2` of PHC: in any order, and each of them once or not at all.
fn parameters<const N: usize>(
    kind: &'static str,
    text: &str,
    names: [&str; N],
) -> Result<[Option<u32>; N], CredentialError> {
    let mut values = [None; N];
    for part in text.split(',').take(N + 1) {
        let (name, value) = part
            .split_once('=')
            .ok_or_else(|| malformed(kind, "its parameters must be like m=19456,t=2,p=1"))?;
        let index = names
            .iter()
            .position(|known| *known == name)
            .ok_or_else(|| malformed(kind, "it has a parameter that is not known"))?;
        if values[index].replace(number(kind, value)?).is_some() {
            return Err(malformed(kind, "it has a parameter twice"));
        }
    }
    Ok(values)
}

fn argon2(kind: Argon2Kind, fields: &[&str]) -> Result<PasswordHash, CredentialError> {
    let name = kind.name();
    let [version, parts, salt, hash] = fields else {
        return Err(malformed(
            name,
            "it must be like $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH",
        ));
    };
    if *version != "v=19" {
        return Err(malformed(name, "its version must be v=19"));
    }
    let [Some(memory_kib), Some(passes), Some(lanes)] = parameters(name, parts, ["m", "t", "p"])?
    else {
        return Err(malformed(
            name,
            "one of the parameters m, t and p is missing",
        ));
    };
    let cost = Cost::Argon2 {
        kind,
        memory_kib,
        passes,
        lanes,
    };
    whole(Form::Modular, cost, salt, hash)
}

fn pbkdf2(digest: Sha, fields: &[&str]) -> Result<PasswordHash, CredentialError> {
    let name = Cost::Pbkdf2 {
        digest,
        iterations: 1,
    }
    .name();
    let [parts, salt, hash] = fields else {
        return Err(malformed(
            name,
            "it must be like $pbkdf2-sha256$i=600000$SALT$HASH",
        ));
    };
    if !parts.contains('=') {
        let iterations = number(name, parts)?;
        return whole(
            Form::Passlib,
            Cost::Pbkdf2 { digest, iterations },
            salt,
            hash,
        );
    }
    let [iterations, len] = parameters(name, parts, ["i", "l"])?;
    let iterations = iterations.ok_or_else(|| malformed(name, "the parameter i is missing"))?;
    let parsed = whole(
        Form::Modular,
        Cost::Pbkdf2 { digest, iterations },
        salt,
        hash,
    )?;
    if len.is_some_and(|len| len as usize != parsed.hash.len()) {
        return Err(malformed(
            name,
            "the hash is not as long as its parameter l says",
        ));
    }
    Ok(parsed)
}

fn scrypt(fields: &[&str]) -> Result<PasswordHash, CredentialError> {
    let [parts, salt, hash] = fields else {
        return Err(malformed(
            "scrypt",
            "it must be like $scrypt$ln=17,r=8,p=1$SALT$HASH",
        ));
    };
    let [Some(log_n), Some(r), Some(p)] = parameters("scrypt", parts, ["ln", "r", "p"])? else {
        return Err(malformed(
            "scrypt",
            "one of the parameters ln, r and p is missing",
        ));
    };
    // What does not fit into a byte is beyond the bound, which the check then says.
    let log_n = u8::try_from(log_n).unwrap_or(u8::MAX);
    whole(Form::Modular, Cost::Scrypt { log_n, r, p }, salt, hash)
}

fn bcrypt(variant: char, fields: &[&str]) -> Result<PasswordHash, CredentialError> {
    const FORM: CredentialError = malformed("bcrypt", "it must be like $2b$12$ and 53 characters");
    let [cost, rest] = fields else {
        return Err(FORM);
    };
    let log_rounds = u8::try_from(number("bcrypt", cost)?).unwrap_or(u8::MAX);
    let cost = Cost::Bcrypt { log_rounds }.check()?;
    let (Some(salt), Some(hash), 53) = (rest.get(..22), rest.get(22..), rest.len()) else {
        return Err(FORM);
    };
    let decode = |text| BCRYPT.decode(text).map_err(|_| FORM);
    Ok(PasswordHash {
        form: Form::Bcrypt(variant),
        cost,
        salt: decode(salt)?,
        hash: decode(hash)?,
    })
}

fn mosquitto(cost: Cost, fields: &[&str]) -> Result<PasswordHash, CredentialError> {
    let [salt, hash] = fields else {
        return Err(malformed(cost.name(), "it must be like $6$SALT$HASH"));
    };
    let parsed = whole(Form::Mosquitto, cost, salt, hash)?;
    if parsed.hash.len() != cost.hash_bytes() {
        return Err(malformed(cost.name(), "the hash must have 64 bytes"));
    }
    Ok(parsed)
}

fn mosquitto_pbkdf2(fields: &[&str]) -> Result<PasswordHash, CredentialError> {
    let [iterations, rest @ ..] = fields else {
        return Err(malformed(
            "pbkdf2-sha512",
            "it must be like $7$101$SALT$HASH",
        ));
    };
    let cost = Cost::Pbkdf2 {
        digest: Sha::Sha512,
        iterations: number("pbkdf2-sha512", iterations)?,
    };
    mosquitto(cost, rest)
}

/// Writes a hash in a form that [`parse`] reads.
pub(super) fn write(
    f: &mut fmt::Formatter<'_>,
    form: Form,
    cost: Cost,
    salt: &[u8],
    hash: &[u8],
) -> fmt::Result {
    let name = cost.name();
    let (salt64, hash64) = (base64::bare(salt), base64::bare(hash));
    match (form, cost) {
        (
            _,
            Cost::Argon2 {
                memory_kib,
                passes,
                lanes,
                ..
            },
        ) => write!(
            f,
            "${name}$v=19$m={memory_kib},t={passes},p={lanes}${salt64}${hash64}"
        ),
        (Form::Mosquitto, Cost::Pbkdf2 { iterations, .. }) => write!(
            f,
            "$7${iterations}${}${}",
            base64::padded(salt),
            base64::padded(hash)
        ),
        (_, Cost::Sha512) => write!(f, "$6${}${}", base64::padded(salt), base64::padded(hash)),
        (Form::Passlib, Cost::Pbkdf2 { iterations, .. }) => write!(
            f,
            "${name}${iterations}${}${}",
            salt64.replace('+', "."),
            hash64.replace('+', ".")
        ),
        (_, Cost::Pbkdf2 { iterations, .. }) => {
            write!(
                f,
                "${name}$i={iterations},l={}${salt64}${hash64}",
                hash.len()
            )
        }
        (_, Cost::Scrypt { log_n, r, p }) => {
            write!(f, "${name}$ln={log_n},r={r},p={p}${salt64}${hash64}")
        }
        (form, Cost::Bcrypt { log_rounds }) => {
            let variant = match form {
                Form::Bcrypt(variant) => variant,
                Form::Modular | Form::Passlib | Form::Mosquitto => 'b',
            };
            let (salt, hash) = (BCRYPT.encode(salt), BCRYPT.encode(hash));
            write!(f, "$2{variant}${log_rounds:02}${salt}{hash}")
        }
    }
}
