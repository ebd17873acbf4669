//! The functions that hash passwords, and what each may cost.

use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256, Sha512};
use zeroize::Zeroize;

use super::memory::with_blocks;
use crate::credential::{CredentialError, MakeError, bounded};

/// A password-hashing function with its parameters: what one comparison takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// Argon2.
    Argon2 {
        /// Which of its kinds.
        kind: Argon2Kind,
        /// Memory in KiB.
        memory_kib: u32,
        /// Passes over it.
        passes: u32,
        /// Lanes.
        lanes: u32,
    },
    /// PBKDF2 with HMAC.
    Pbkdf2 {
        /// The digest of its HMAC.
        digest: Sha,
        /// Rounds.
        iterations: u32,
    },
    /// scrypt.
    Scrypt {
        /// The binary logarithm of its number of blocks.
        log_n: u8,
        /// The size of a block in 128 bytes.
        r: u32,
        /// Lanes.
        p: u32,
    },
    /// bcrypt.
    Bcrypt {
        /// The binary logarithm of its rounds.
        log_rounds: u8,
    },
    /// One round of salted SHA-512, as old mosquitto password files have it. Never made.
    Sha512,
}

/// The kinds of Argon2 that are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Argon2Kind {
    /// Argon2id, version 1.3.
    Id,
    /// Argon2i, version 1.3.
    I,
}

/// The digests of PBKDF2 and SCRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sha {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// Memory of one hash: 256 MiB.
const MEMORY_KIB_MAX: u64 = 256 * 1024;
/// Memory written by one hash, all passes together: 4 GiB, which takes seconds.
const WRITTEN_KIB_MAX: u64 = 4 * 1024 * 1024;
/// Rounds of PBKDF2: some seconds.
pub(crate) const ITERATIONS_MAX: u64 = 10_000_000;
/// bcrypt's cost: 2^16 rounds take some seconds.
const LOG_ROUNDS: (u64, u64) = (4, 16);

impl Cost {
    /// What new passwords are stored as unless the configuration says otherwise: argon2id with
    /// 19 MiB and two passes, as OWASP recommends.
    pub const DEFAULT: Self = Self::Argon2 {
        kind: Argon2Kind::Id,
        memory_kib: 19_456,
        passes: 2,
        lanes: 1,
    };

    /// PBKDF2 with SHA-256 and 600,000 rounds, as OWASP recommends.
    pub const PBKDF2_SHA256: Self = Self::Pbkdf2 {
        digest: Sha::Sha256,
        iterations: 600_000,
    };

    /// PBKDF2 with SHA-512 and 210,000 rounds, as OWASP recommends.
    pub const PBKDF2_SHA512: Self = Self::Pbkdf2 {
        digest: Sha::Sha512,
        iterations: 210_000,
    };

    /// scrypt with 128 MiB, as OWASP recommends.
    pub const SCRYPT: Self = Self::Scrypt {
        log_n: 17,
        r: 8,
        p: 1,
    };

    /// bcrypt with 2^12 rounds.
    pub const BCRYPT: Self = Self::Bcrypt { log_rounds: 12 };

    /// The least that argon2id takes: for tests and benchmarks of everything else, never for
    /// passwords that anybody uses.
    pub const CHEAPEST: Self = Self::Argon2 {
        kind: Argon2Kind::Id,
        memory_kib: 8,
        passes: 1,
        lanes: 1,
    };

    /// Its name, as the configuration and the standard strings have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Argon2 { kind, .. } => kind.name(),
            Self::Pbkdf2 { digest, .. } => match digest {
                Sha::Sha256 => "pbkdf2-sha256",
                Sha::Sha512 => "pbkdf2-sha512",
            },
            Self::Scrypt { .. } => "scrypt",
            Self::Bcrypt { .. } => "bcrypt",
            Self::Sha512 => "sha512",
        }
    }

    /// Checks the parameters against the bounds, so that one comparison takes at most 256 MiB and
    /// some seconds.
    pub(crate) fn check(self) -> Result<Self, CredentialError> {
        let name = self.name();
        let check = |what, value: u32, (min, max)| bounded(name, what, value, min, max);
        match self {
            Self::Argon2 {
                memory_kib,
                passes,
                lanes,
                ..
            } => {
                check("lanes", lanes, (1, 16))?;
                let least = 8 * u64::from(lanes);
                check("memory in KiB", memory_kib, (least, MEMORY_KIB_MAX))?;
                let most = WRITTEN_KIB_MAX / u64::from(memory_kib);
                check("passes", passes, (1, most))?;
            }
            Self::Pbkdf2 { iterations, .. } => {
                check("iterations", iterations, (1, ITERATIONS_MAX))?;
            }
            Self::Scrypt { log_n, r, p } => {
                check("ln", log_n.into(), (1, 21))?;
                // 128 bytes times r times N is its memory.
                let r_max = (MEMORY_KIB_MAX * 8) >> log_n;
                check("r", r, (1, r_max))?;
                let p_max = (WRITTEN_KIB_MAX * 8) >> log_n;
                check("p", p, (1, (p_max / u64::from(r)).min(64)))?;
            }
            Self::Bcrypt { log_rounds } => {
                check("cost", log_rounds.into(), LOG_ROUNDS)?;
            }
            Self::Sha512 => {}
        }
        Ok(self)
    }

    /// Bytes of a new hash.
    pub(super) const fn hash_bytes(self) -> usize {
        match self {
            Self::Argon2 { .. } | Self::Scrypt { .. } => 32,
            Self::Pbkdf2 { digest, .. } => digest.bytes(),
            Self::Bcrypt { .. } => 23,
            Self::Sha512 => 64,
        }
    }

    /// Bytes of salt that make a hash of this function up to date.
    pub(super) const fn salt_bytes(self) -> usize {
        // Whatever a password file's own salts are, they are what mosquitto made.
        16
    }

    /// Whether a hash of this cost is older or weaker than `wanted`.
    pub(super) fn is_below(self, wanted: Self) -> bool {
        match (self, wanted) {
            (
                Self::Argon2 {
                    kind: Argon2Kind::Id,
                    memory_kib,
                    passes,
                    ..
                },
                Self::Argon2 {
                    memory_kib: wanted_kib,
                    passes: wanted_passes,
                    ..
                },
            ) => memory_kib < wanted_kib || passes < wanted_passes,
            (
                Self::Pbkdf2 { digest, iterations },
                Self::Pbkdf2 {
                    digest: wanted_digest,
                    iterations: wanted_iterations,
                },
            ) => digest != wanted_digest || iterations < wanted_iterations,
            (
                Self::Scrypt { log_n, r, .. },
                Self::Scrypt {
                    log_n: wanted_log_n,
                    r: wanted_r,
                    ..
                },
            ) => log_n < wanted_log_n || r < wanted_r,
            (
                Self::Bcrypt { log_rounds },
                Self::Bcrypt {
                    log_rounds: wanted_rounds,
                },
            ) => log_rounds < wanted_rounds,
            _ => true,
        }
    }

    /// Computes the hash.
    pub(super) fn fill(
        self,
        password: &[u8],
        salt: &[u8],
        out: &mut [u8],
    ) -> Result<(), MakeError> {
        #[cfg(test)]
        work::note(password, self);
        match self {
            Self::Argon2 {
                kind,
                memory_kib,
                passes,
                lanes,
            } => {
                let params = Params::new(memory_kib, passes, lanes, Some(out.len()))
                    .map_err(|_| MakeError::Function("argon2 refuses its parameters"))?;
                let blocks = params.block_count();
                let argon2 = Argon2::new(kind.algorithm(), Version::V0x13, params);
                let fill = |blocks: &mut [_]| {
                    argon2.hash_password_into_with_memory(password, salt, out, blocks)
                };
                with_blocks(blocks, fill)
                    .map_err(|_| MakeError::Function("argon2 refuses the password or the salt"))
            }
            Self::Pbkdf2 { digest, iterations } => {
                digest.pbkdf2(password, salt, iterations, out);
                Ok(())
            }
            Self::Scrypt { log_n, r, p } => {
                let refused = MakeError::Function("scrypt refuses its parameters");
                let params = scrypt::Params::new(log_n, r, p).map_err(|_| refused.clone())?;
                scrypt::scrypt(password, salt, &params, out).map_err(|_| refused)
            }
            Self::Bcrypt { log_rounds } => bcrypt(password, salt, log_rounds, out),
            Self::Sha512 => {
                let mut digest = Sha512::new()
                    .chain_update(password)
                    .chain_update(salt)
                    .finalize();
                let len = out.len().min(digest.len());
                out[..len].copy_from_slice(&digest[..len]);
                digest.zeroize();
                Ok(())
            }
        }
    }
}

/// bcrypt with the terminating zero byte of its `2b` form; it looks at the first 72 bytes, as
/// everybody's does.
fn bcrypt(password: &[u8], salt: &[u8], log_rounds: u8, out: &mut [u8]) -> Result<(), MakeError> {
    let salt = <[u8; 16]>::try_from(salt)
        .map_err(|_| MakeError::Function("bcrypt takes 16 bytes of salt"))?;
    let mut text = [0; 72];
    let len = password.len().min(text.len());
    text[..len].copy_from_slice(&password[..len]);
    let used = (len + 1).min(text.len());
    let mut hash = bcrypt::bcrypt(log_rounds.into(), salt, &text[..used]);
    text.zeroize();
    let len = out.len().min(hash.len());
    out[..len].copy_from_slice(&hash[..len]);
    hash.zeroize();
    Ok(())
}

impl Argon2Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Id => "argon2id",
            Self::I => "argon2i",
        }
    }

    const fn algorithm(self) -> Algorithm {
        match self {
            Self::Id => Algorithm::Argon2id,
            Self::I => Algorithm::Argon2i,
        }
    }
}

impl Sha {
    /// Bytes of a digest.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// PBKDF2 with HMAC of this digest.
    pub(crate) fn pbkdf2(self, password: &[u8], salt: &[u8], iterations: u32, out: &mut [u8]) {
        match self {
            Self::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, out),
            Self::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, iterations, out),
        }
    }
}

/// What was computed for which password: so that tests compare work instead of time.
#[cfg(test)]
pub(crate) mod work {
    use std::sync::Mutex;

    use super::Cost;

    static DONE: Mutex<Vec<(Vec<u8>, Cost)>> = Mutex::new(Vec::new());

    pub(crate) fn note(password: &[u8], cost: Cost) {
        DONE.lock().unwrap().push((password.to_vec(), cost));
    }

    /// What was computed for a password that no other test uses.
    pub(crate) fn of(password: &str) -> Vec<Cost> {
        let done = DONE.lock().unwrap();
        let same = done.iter().filter(|(one, _)| one == password.as_bytes());
        same.map(|(_, cost)| *cost).collect()
    }
}
