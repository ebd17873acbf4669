//! What a token says, once its signature is known to be right.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Issuer, JwtError};
use crate::model::{DEFAULT_ZONE, Rule, USER_ROLES_MAX, UserKey, check_name};

/// The claims of a token as JSON.
pub(super) type Object = Map<String, Value>;

/// How many rules a token may carry.
const RULES_MAX: usize = 100;

/// What a token says about its bearer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The zone.
    pub zone: Arc<str>,
    /// The user name.
    pub user: Arc<str>,
    /// The claim `roles`: names of roles. `None`: the token leaves them to the user's record.
    pub roles: Option<Vec<Arc<str>>>,
    /// The claim `rights`: rules like `allow publish sensors/{user}/#`.
    pub rules: Vec<Rule>,
    /// Whether its issuer is trusted about users who are known only.
    pub known_users: bool,
    /// When the connection ends, in seconds since 1970: the claim `exp`, or the leeway after it
    /// where only that lets the token in.
    pub expires_at_secs: u64,
}

impl Claims {
    /// Checks the claims of an issuer.
    pub(super) fn check(object: &Object, issuer: &Issuer, now_secs: u64) -> Result<Self, JwtError> {
        if let Some(expected) = &issuer.issuer
            && text(object, "iss")? != Some(expected.as_str())
        {
            return Err(JwtError::Issuer);
        }
        check_audience(object, &issuer.audience)?;
        let leeway = issuer.leeway_secs;
        let expires = time(object, "exp")?.ok_or_else(|| JwtError::Claim("exp".into()))?;
        let expires_at_secs = match expires.saturating_add(leeway) {
            late if late <= now_secs => return Err(JwtError::Expired),
            late if expires <= now_secs => late,
            _ => expires,
        };
        for claim in ["nbf", "iat"] {
            if time(object, claim)?.is_some_and(|from| from > now_secs.saturating_add(leeway)) {
                return Err(JwtError::NotYet);
            }
        }
        Ok(Self {
            zone: zone(object, issuer)?,
            user: name(object, &issuer.user_claim)?
                .ok_or_else(|| JwtError::Claim(issuer.user_claim.clone()))?,
            roles: roles(object)?,
            rules: rules(object)?,
            known_users: issuer.known_users,
            expires_at_secs,
        })
    }
}

/// The user that claims are about, whether or not they are valid.
pub(super) fn bearer(object: &Object, issuer: &Issuer) -> Option<UserKey> {
    let zone = zone(object, issuer).ok()?;
    let user = name(object, &issuer.user_claim).ok()??;
    Some(UserKey::new(zone, user))
}

/// A claim that must be a text if it is there.
fn text<'a>(object: &'a Object, claim: &str) -> Result<Option<&'a str>, JwtError> {
    match object.get(claim) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(JwtError::Claim(claim.to_owned())),
    }
}

/// A claim that must be a name as commands can give one: an operator has to be able to shut
/// everybody out who comes.
fn name(object: &Object, claim: &str) -> Result<Option<Arc<str>>, JwtError> {
    let Some(name) = text(object, claim)? else {
        return Ok(None);
    };
    match check_name(name) {
        Ok(()) => Ok(Some(name.into())),
        Err(error) => Err(JwtError::Name(claim.to_owned(), error)),
    }
}

/// Seconds since 1970; RFC 7519 allows fractions.
fn time(object: &Object, claim: &str) -> Result<Option<u64>, JwtError> {
    let Some(value) = object.get(claim) else {
        return Ok(None);
    };
    let whole = value.as_u64();
    let fraction = || {
        let secs = value.as_f64().filter(|secs| (0.0..1e15).contains(secs))?;
        // The range makes it fit.
        Some(secs as u64)
    };
    match whole.or_else(fraction) {
        Some(secs) => Ok(Some(secs)),
        None => Err(JwtError::Claim(claim.to_owned())),
    }
}

/// RFC 7519, 4.1.3: whoever is not named must refuse.
fn check_audience(object: &Object, audience: &[String]) -> Result<(), JwtError> {
    let is_ours = |name: &Value| {
        let name = name.as_str();
        name.is_some_and(|name| audience.iter().any(|ours| ours == name))
    };
    let is_right = match object.get("aud") {
        None => audience.is_empty(),
        Some(Value::Array(names)) => names.iter().any(is_ours),
        Some(name) => is_ours(name),
    };
    if is_right {
        Ok(())
    } else {
        Err(JwtError::Audience(audience.to_vec()))
    }
}

fn zone(object: &Object, issuer: &Issuer) -> Result<Arc<str>, JwtError> {
    let claimed = name(object, "zone")?;
    match (&issuer.zone, claimed) {
        (Some(ours), Some(theirs)) if **ours != *theirs => Err(JwtError::Claim("zone".into())),
        (Some(ours), _) => Ok(ours.as_str().into()),
        (None, Some(theirs)) => Ok(theirs),
        (None, None) => Ok(DEFAULT_ZONE.into()),
    }
}

/// A claim that must be a list of texts if it is there.
fn texts<'a>(
    object: &'a Object,
    claim: &'static str,
    max: usize,
) -> Result<Option<Vec<&'a str>>, JwtError> {
    let malformed = || JwtError::Claim(claim.to_owned());
    let Some(value) = object.get(claim) else {
        return Ok(None);
    };
    let items = value.as_array().filter(|items| items.len() <= max);
    let texts = items.ok_or_else(malformed)?.iter().map(Value::as_str);
    let texts: Option<Vec<&str>> = texts.collect();
    texts.map(Some).ok_or_else(malformed)
}

fn roles(object: &Object) -> Result<Option<Vec<Arc<str>>>, JwtError> {
    let names = texts(object, "roles", USER_ROLES_MAX)?;
    Ok(names.map(|names| names.into_iter().map(Arc::from).collect()))
}

fn rules(object: &Object) -> Result<Vec<Rule>, JwtError> {
    let rules = texts(object, "rights", RULES_MAX)?.unwrap_or_default();
    let parsed = rules.into_iter().map(str::parse);
    parsed
        .collect::<Result<_, _>>()
        .map_err(|_| JwtError::Claim("rights".into()))
}
