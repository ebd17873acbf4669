use std::path::Path;

use jsonwebtoken::jwk::Jwk;

use jsonwebtoken::EncodingKey;
use serde_json::{Value, json};

use super::*;
use crate::model::DEFAULT_ZONE;

const NOW: u64 = 1_800_000_000;
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Somebody who signs: an algorithm, the key that signs, and the file that verifies.
struct Signer {
    algorithm: Algorithm,
    key: EncodingKey,
    folder: tempfile::TempDir,
}

impl Signer {
    fn hmac() -> Self {
        Self::new(Algorithm::HS256, EncodingKey::from_secret(SECRET), SECRET)
    }

    fn new(algorithm: Algorithm, key: EncodingKey, file: &[u8]) -> Self {
        keys::install();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), file).unwrap();
        Self {
            algorithm,
            key,
            folder,
        }
    }

    /// A key pair of this kind.
    fn pair(algorithm: Algorithm, kind: &'static rcgen::SignatureAlgorithm) -> Self {
        let pair = rcgen::KeyPair::generate_for(kind).unwrap();
        let der = pair.serialize_der();
        let key = match algorithm {
            Algorithm::EdDSA => EncodingKey::from_ed_der(&der),
            Algorithm::ES256 | Algorithm::ES384 => EncodingKey::from_ec_der(&der),
            _ => EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap(),
        };
        Self::new(algorithm, key, pair.public_key_pem().as_bytes())
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    fn issuer(&self) -> Issuer {
        let source = KeySource::File(self.path());
        Issuer {
            issuer: None,
            audience: Vec::new(),
            leeway_secs: 10,
            user_claim: "sub".into(),
            zone: None,
            known_users: false,
            keys: Keys::read(&source, &[self.algorithm]).unwrap(),
        }
    }

    fn sign(&self, claims: &Value) -> Vec<u8> {
        self.sign_with(&Header::new(self.algorithm), claims)
    }

    fn sign_with(&self, header: &Header, claims: &Value) -> Vec<u8> {
        jsonwebtoken::encode(header, claims, &self.key)
            .unwrap()
            .into_bytes()
    }
}

fn claims() -> Value {
    json!({"sub": "ann", "exp": NOW + 60})
}

/// The plain claims with some changed.
fn with(changes: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

fn ann() -> Claims {
    Claims {
        known_users: false,
        zone: DEFAULT_ZONE.into(),
        user: "ann".into(),
        roles: None,
        rules: Vec::new(),
        expires_at_secs: NOW + 60,
    }
}

#[test]
fn every_algorithm_signs_and_no_other_key_does() {
    let signers = [
        Signer::hmac(),
        Signer::pair(Algorithm::ES256, &rcgen::PKCS_ECDSA_P256_SHA256),
        Signer::pair(Algorithm::ES384, &rcgen::PKCS_ECDSA_P384_SHA384),
        Signer::pair(Algorithm::EdDSA, &rcgen::PKCS_ED25519),
        Signer::pair(Algorithm::RS256, &rcgen::PKCS_RSA_SHA256),
    ];
    for (index, signer) in signers.iter().enumerate() {
        let token = signer.sign(&claims());
        assert!(is_jwt(&token));
        let issuers = [signer.issuer()];
        assert_eq!(verify(&issuers, &token, NOW), Ok(ann()), "{index}");
        for (other, theirs) in signers
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
        {
            let refused = verify(&[theirs.issuer()], &token, NOW).unwrap_err();
            assert_eq!(refused, JwtError::UnknownKey, "{index} {other}");
        }
    }
    // All of them together: the right one is found.
    let issuers: Vec<Issuer> = signers.iter().map(Signer::issuer).collect();
    let token = signers[3].sign(&claims());
    assert_eq!(verify(&issuers, &token, NOW), Ok(ann()));
}

/// The oldest trick: the public key, which everybody knows, as the secret of HMAC.
#[test]
fn a_public_key_is_never_a_secret() {
    let signer = Signer::pair(Algorithm::RS256, &rcgen::PKCS_RSA_SHA256);
    let public = std::fs::read(signer.path()).unwrap();
    let forger = Signer::new(Algorithm::HS256, EncodingKey::from_secret(&public), &public);
    let token = forger.sign(&claims());
    for issuer in [signer.issuer(), {
        let source = KeySource::File(signer.path());
        let keys = Keys::read(&source, &[]).unwrap();
        Issuer {
            keys,
            ..signer.issuer()
        }
    }] {
        assert_eq!(verify(&[issuer], &token, NOW), Err(JwtError::UnknownKey));
    }
    let source = KeySource::File(signer.path());
    let read = Keys::read(&source, &[Algorithm::HS256]);
    assert!(matches!(read, Err(KeyError::Content { .. })));
    let read = Keys::read(&source, &[Algorithm::HS256, Algorithm::RS256]);
    assert!(matches!(read, Err(KeyError::Content { .. })));
}

#[test]
fn unsigned_broken_and_foreign_tokens_are_refused() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let signer = Signer::hmac();
    let issuers = [signer.issuer()];
    let token = signer.sign(&claims());
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let body = encode(&claims().to_string());
    let none = format!("{}.{body}.", encode(r#"{"alg":"none"}"#));
    assert_eq!(
        verify(&issuers, none.as_bytes(), NOW),
        Err(JwtError::Malformed)
    );
    let mut broken = token.clone();
    let last = broken.len() - 5;
    broken[last] = if broken[last] == b'A' { b'B' } else { b'A' };
    assert_eq!(verify(&issuers, &broken, NOW), Err(JwtError::Signature));
    let other = EncodingKey::from_secret(b"another secret that is long enough");
    let theirs = Signer::new(
        Algorithm::HS256,
        other,
        b"another secret that is long enough",
    );
    let foreign = theirs.sign(&claims());
    assert_eq!(verify(&issuers, &foreign, NOW), Err(JwtError::Signature));
    for text in [
        &b""[..],
        b"eyJ",
        b"a.b.c",
        b"eyJ.eyJ",
        b"eyJ.eyJ.a.b",
        b"eyJ\xFF.a.b",
    ] {
        assert_eq!(verify(&issuers, text, NOW), Err(JwtError::Malformed));
    }
    let long = signer.sign(&with(&json!({"x": "x".repeat(TOKEN_BYTES_MAX)})));
    assert!(
        is_jwt(&long),
        "it is told from a password, to be refused as what it is"
    );
    let too_long = Err(JwtError::TooLong(long.len()));
    assert_eq!(verify(&issuers, &long, NOW), too_long);
    let mut header = Header::new(Algorithm::HS256);
    header.crit = Some(vec!["exp".into()]);
    let critical = signer.sign_with(&header, &claims());
    assert!(verify(&issuers, &critical, NOW).is_err());
}

/// Checks claims: the change, what is expected of the issuer, and what comes of it.
#[test]
fn claims_are_checked_one_by_one() {
    let signer = Signer::hmac();
    let strict = Issuer {
        issuer: Some("https://id.example".into()),
        audience: vec!["stentor".into(), "mqtt".into()],
        ..signer.issuer()
    };
    let right = json!({"iss": "https://id.example", "aud": "stentor"});
    let claim = |name: &str| Err(JwtError::Claim(name.into()));
    let no_name = |name: &str, error| Err(JwtError::Name(name.into(), error));
    let no_audience = || Err(JwtError::Audience(Vec::new()));
    let other_audience = || Err(JwtError::Audience(strict.audience.clone()));
    let long = "x".repeat(NAME_LEN + 1);
    let cases = [
        (json!({}), false, Ok(ann())),
        (json!({"exp": null}), false, claim("exp")),
        (json!({"exp": "soon"}), false, claim("exp")),
        (json!({"exp": -1}), false, claim("exp")),
        (json!({"exp": NOW - 10}), false, Err(JwtError::Expired)),
        (
            json!({"exp": NOW - 9}),
            false,
            Ok(Claims {
                expires_at_secs: NOW + 1,
                ..ann()
            }),
        ),
        (json!({"exp": 1_800_000_060.9}), false, Ok(ann())),
        (json!({"nbf": NOW + 10}), false, Ok(ann())),
        (json!({"nbf": NOW + 11}), false, Err(JwtError::NotYet)),
        (json!({"nbf": "now"}), false, claim("nbf")),
        (json!({"iat": NOW + 11}), false, Err(JwtError::NotYet)),
        (json!({"sub": 7}), false, claim("sub")),
        (json!({"sub": ""}), false, no_name("sub", NameError::Empty)),
        (
            json!({"sub": "a\nb"}),
            false,
            no_name("sub", NameError::Control('\n')),
        ),
        (
            json!({"sub": long}),
            false,
            no_name("sub", NameError::TooLong),
        ),
        (
            json!({"sub": "ann "}),
            false,
            no_name("sub", NameError::Space),
        ),
        (
            json!({"sub": "https://id.example/ann"}),
            false,
            no_name("sub", NameError::Reserved('/')),
        ),
        (json!({"aud": "stentor"}), false, no_audience()),
        (json!({"aud": []}), false, no_audience()),
        (right.clone(), true, Ok(ann())),
        (
            json!({"iss": "https://id.example", "aud": ["other", "mqtt"]}),
            true,
            Ok(ann()),
        ),
        (
            json!({"iss": "https://id.example", "aud": ["other"]}),
            true,
            other_audience(),
        ),
        (json!({"iss": "https://id.example"}), true, other_audience()),
        (
            json!({"iss": "https://id.example", "aud": {"stentor": 1}}),
            true,
            other_audience(),
        ),
        (json!({"aud": "stentor"}), true, Err(JwtError::Issuer)),
        (
            json!({"iss": ["https://id.example"], "aud": "stentor"}),
            true,
            claim("iss"),
        ),
        (json!({"roles": "admin"}), false, claim("roles")),
        (json!({"roles": [1]}), false, claim("roles")),
        (json!({"roles": vec!["x"; 257]}), false, claim("roles")),
        (
            json!({"roles": ["a", "b"]}),
            false,
            Ok(Claims {
                roles: Some(vec!["a".into(), "b".into()]),
                ..ann()
            }),
        ),
        (
            json!({"rights": ["allow everything"]}),
            false,
            claim("rights"),
        ),
        (
            json!({"rights": vec!["allow publish a"; 101]}),
            false,
            claim("rights"),
        ),
        (
            json!({"rights": ["allow publish a/{user}", "deny both b/#"]}),
            false,
            Ok(Claims {
                rules: vec![
                    "allow publish a/{user}".parse().unwrap(),
                    "deny both b/#".parse().unwrap(),
                ],
                ..ann()
            }),
        ),
        (
            json!({"zone": "game"}),
            false,
            Ok(Claims {
                zone: "game".into(),
                ..ann()
            }),
        ),
        (json!({"zone": 1}), false, claim("zone")),
        (
            json!({"zone": "game/1"}),
            false,
            no_name("zone", NameError::Reserved('/')),
        ),
    ];
    for (changes, is_strict, expected) in cases {
        let issuer = if is_strict {
            strict.clone()
        } else {
            signer.issuer()
        };
        let token = signer.sign(&with(&changes));
        assert_eq!(verify(&[issuer], &token, NOW), expected, "{changes}");
    }
    let zoned = Issuer {
        zone: Some("game".into()),
        ..signer.issuer()
    };
    let zone_of = |changes: &Value| {
        let verified = verify(
            std::slice::from_ref(&zoned),
            &signer.sign(&with(changes)),
            NOW,
        );
        verified.map(|claims| claims.zone.to_string())
    };
    assert_eq!(zone_of(&json!({})), Ok("game".to_owned()));
    assert_eq!(zone_of(&json!({"zone": "game"})), Ok("game".to_owned()));
    assert_eq!(
        zone_of(&json!({"zone": "other"})),
        Err(JwtError::Claim("zone".into()))
    );
}

const NAME_LEN: usize = crate::model::NAME_BYTES_MAX;

/// A set with the keys of two signers, and entries that nobody here can use.
#[test]
fn a_key_set_is_searched_by_key_id() {
    let (one, two) = (
        Signer::pair(Algorithm::ES256, &rcgen::PKCS_ECDSA_P256_SHA256),
        Signer::pair(Algorithm::ES256, &rcgen::PKCS_ECDSA_P256_SHA256),
    );
    let jwk = |signer: &Signer, id: &str| {
        let mut jwk = Jwk::from_encoding_key(&signer.key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(id.into());
        serde_json::to_value(jwk).unwrap()
    };
    let set = json!({"keys": [
        {"kty": "unknown", "kid": "x"},
        {"kty": "RSA", "n": "!", "e": "!"},
        {"kty": "oct", "k": "c2hvcnQ"},
        jwk(&one, "one"),
        jwk(&two, "two"),
    ]});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    std::fs::write(&path, set.to_string()).unwrap();
    let keys = Keys::read(&KeySource::Jwks(path), &[]).unwrap();
    let issuers = [Issuer {
        keys,
        ..one.issuer()
    }];
    let signed = |signer: &Signer, id: Option<&str>| {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = id.map(Into::into);
        verify(&issuers, &signer.sign_with(&header, &claims()), NOW)
    };
    assert_eq!(signed(&one, Some("one")), Ok(ann()));
    assert_eq!(signed(&two, Some("two")), Ok(ann()));
    assert_eq!(signed(&two, None), Ok(ann()));
    assert_eq!(signed(&two, Some("one")), Err(JwtError::Signature));
    assert_eq!(signed(&two, Some("three")), Err(JwtError::UnknownKey));
}

/// Keys that no signature is checked by, here or in the libraries.
const RSA_1024: &[u8] = b"-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC69/HNQkk3+y2nBHW3otIENb0S
UI4NR2VITMOdodikOrdvcO2Ozq1JplxTYqgpptMQXokBbCoNDjTkG1V+ceRICCTZ
/n1z469glQJmtNwCjjiWaDApkNh27vRKND2S62NkkUgkkaXrEbGsKmyg0VuXurKu
MXxOhuaL33a4p32XuwIDAQAB
-----END PUBLIC KEY-----
";
const EC_P521: &[u8] = b"-----BEGIN PUBLIC KEY-----
MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAvWBNwuxFoNTY9VPUCEaim4L+e2SQ
xn1/glfhlqkm4MDKC9KWwoTrxAZB4M2SrMk8DK6USFxxEUbHIyA73/UkJV8Bifxq
up+dcVAL6Kfo0tdonddkvd4wa8DEH4WYIIv5P/pkf5vOgHcM2hTssdJUO0s/c4cQ
8gU3/9CbENx93+vKKfA=
-----END PUBLIC KEY-----
";
/// As long as one on P-256, to which no signature of ES256 is right.
const EC_SECP256K1: &[u8] = b"-----BEGIN PUBLIC KEY-----
MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAEU0UQ34RhPLwKV29zhqEFbfVI7mcFnylX
uoalSQs8hu9B+EhipaumRSs3yrnQ2cS2bXEuVjCMS6HtXrtp0//k6w==
-----END PUBLIC KEY-----
";
const RSA_2040: &[u8] = b"-----BEGIN PUBLIC KEY-----
MIIBITANBgkqhkiG9w0BAQEFAAOCAQ4AMIIBCQKCAQAAv+kLC4WN7Fam1us2g2KV
K4LFjZDf4njl1YURcFuwivcXPcuheML4/xc9wlhXoAhKcNA5HisXDbsxs4x95cD/
Jf6eAbPN8TNSoON8r8Vb589fc1sXihTrC49xKOEeE2JmBqWrgqynjI1LoBjZXib1
QJfoSAWG5PvqoWNBXYV2AiJTFWIMy1W4LGQ5xZgPkmr6p5z//wzsxFZdkeEBCYZ8
41OOtsAJYnqyQDH4eUsKSr2lrxNdXof9rH32Kt727NqFgiQGfHMDW0GT3WyX1koO
jlsWcknMXpZcCNMzFubaHeC7g2KOQsQs8dgXAO843oVqsQ9cpQaIAm+AIJnxf0EB
AgMBAAE=
-----END PUBLIC KEY-----
";

/// Good for ES384, and for nothing else.
const EC_P384: &[u8] = b"-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEvcguWjSxbOMjIE456UljQX7hc4gLSrWr
G/Ibp3EHZc+CkRMGk7Wk+cCpkfl91xCiyXKmKJ+SlbI5VtxP0lkdndyOUSn86yiK
wsU0pa/nQobsiXnJ/w+6nzaT7oQ2uox1
-----END PUBLIC KEY-----
";

/// One coordinate and the sign of the other.
const EC_P256_COMPRESSED: &[u8] = b"-----BEGIN PUBLIC KEY-----
MDkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDIgAC/AyelpBXIw4y8+0A3iwEp/pfBMib
mYac/zNcEd7YP8k=
-----END PUBLIC KEY-----
";

/// Its curve is P-256, and is written out.
const EC_P256_EXPLICIT: &[u8] = b"-----BEGIN PUBLIC KEY-----
MIIBSzCCAQMGByqGSM49AgEwgfcCAQEwLAYHKoZIzj0BAQIhAP////8AAAABAAAA
AAAAAAAAAAAA////////////////MFsEIP////8AAAABAAAAAAAAAAAAAAAA////
///////////8BCBaxjXYqjqT57PrvVV2mIa8ZR0GsMxTsPY7zjw+J9JgSwMVAMSd
NgiG5wSTamZ44ROdJreBn36QBEEEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5
RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9QIhAP////8AAAAA
//////////+85vqtpxeehPO5ysL8YyVRAgEBA0IABOWB/e0Nub0/o14gtaqOpu3h
C76vD5pz3kf/mss3Q6Niomv/OfIlWbQ/yOUMIQIU5N87cuRRiPoJ0ZFboPmlfV0=
-----END PUBLIC KEY-----
";

const ED448: &[u8] = b"-----BEGIN PUBLIC KEY-----
MEMwBQYDK2VxAzoA8kitV0H8J8Qe8NYIke+BiV0SMN1RUqn0viXxTTKwA643kZXe
6+3lfEaKUqlMz024LMP/BzWKAd6A
-----END PUBLIC KEY-----
";

const X25519: &[u8] = b"-----BEGIN PUBLIC KEY-----
MCowBQYDK2VuAyEAWW6ryyyP5T5cwXBf3e1SPPS8XQh3HR2lYfDiOVqOFjw=
-----END PUBLIC KEY-----
";

#[test]
fn files_that_hold_no_key_are_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let file = |bytes: &[u8], algorithms: &[Algorithm]| {
        std::fs::write(&path, bytes).unwrap();
        let read = Keys::read(&KeySource::File(path.clone()), algorithms);
        read.unwrap_err().to_string()
    };
    let set = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Keys::read(&KeySource::Jwks(path.clone()), &[])
            .unwrap_err()
            .to_string()
    };
    for (error, reason) in [
        (file(b"short", &[Algorithm::HS256]), "at least 32 bytes"),
        (file(SECRET, &[]), "not a PEM file"),
        (
            file(b"-----BEGIN PUBLIC KEY-----\nAAAA\n", &[]),
            "not a public key",
        ),
        (
            file(
                b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                &[],
            ),
            "a private key",
        ),
        (
            file(&b"-----BEGIN PUBLIC KEY-----\nAAAA\n".repeat(2), &[]),
            "several keys",
        ),
        (file(RSA_1024, &[]), "2,048 to 8,192 bits"),
        (file(RSA_2040, &[]), "2,048 to 8,192 bits"),
        (file(EC_P521, &[]), "P-256 (ES256) and P-384"),
        (file(EC_SECP256K1, &[]), "P-256 (ES256) and P-384"),
        (file(EC_P256_EXPLICIT, &[]), "-param_enc named_curve"),
        (file(ED448, &[]), "only Ed25519 keys"),
        (file(ED448, &[Algorithm::EdDSA]), "only Ed25519 keys"),
        (file(X25519, &[]), "nothing is signed"),
        (file(EC_SECP256K1, &[Algorithm::ES256]), "ES256"),
        (file(EC_P384, &[Algorithm::ES256]), "ES384 with P-384"),
        (file(&vec![b'x'; 2 << 20], &[]), "larger than 1 MiB"),
        (set(b"[]"), "not a JSON Web Key Set"),
        (set(b"{\"keys\":[]}"), "holds no key"),
        (
            set(br#"{"keys":[{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}]}"#),
            "holds no key",
        ),
        (
            set(br#"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}"#),
            "on P-256 or P-384",
        ),
        (
            set(br#"{"keys":[{"kty":"oct","k":"c2hvcnQ"}]}"#),
            "holds no key",
        ),
    ] {
        assert!(error.contains(reason), "{error}");
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
    let missing = KeySource::File(Path::new("/nowhere/key").into());
    assert!(matches!(
        Keys::read(&missing, &[]),
        Err(KeyError::Read { .. })
    ));
}

#[test]
fn a_key_goes_with_the_algorithm_of_its_curve() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let of_windows = String::from_utf8_lossy(EC_P384).replace('\n', "\r\n");
    let pair = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default()
        .self_signed(&pair)
        .unwrap()
        .pem();
    for (key, algorithm) in [
        (EC_P256_COMPRESSED, Algorithm::ES256),
        (EC_P384, Algorithm::ES384),
        (of_windows.as_bytes(), Algorithm::ES384),
        (certificate.as_bytes(), Algorithm::ES256),
    ] {
        std::fs::write(&path, key).unwrap();
        for algorithms in [&[][..], &[algorithm]] {
            Keys::read(&KeySource::File(path.clone()), algorithms).unwrap();
        }
    }
}
