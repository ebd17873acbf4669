//! `tokens.…`: passwords of machines, which the server makes and shows once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::users::Credential;
use crate::{Done, Request, Secret, Verb};

/// `tokens.ls`: the tokens of a user, without what is secret of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ls {
    /// The user's login name.
    pub name: String,
    /// The name of the user's zone, if the login name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Request for Ls {
    const VERB: Verb = Verb::TokensLs;
    type Answer = List;
}

/// What `tokens.ls` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// The tokens.
    pub tokens: Vec<Credential>,
}

/// `tokens.create`: makes a token for a user. The answer alone has it: the server keeps its hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Create {
    /// The user's login name.
    pub name: String,
    /// The name of the user's zone, if the login name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What the token is for: up to 255 bytes. No other token of the user has the same label.
    #[serde(default)]
    pub label: String,
    /// Days until the token expires, from 1 to 36,500; never if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
}

impl Request for Create {
    const VERB: Verb = Verb::TokensCreate;
    type Answer = Created;
}

/// What `tokens.create` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Created {
    /// The id by which `tokens.ls` shows the token.
    pub id: String,
    /// The token. Nobody can see it again.
    pub token: Secret,
}

/// `tokens.revoke`: takes a token away, and ends what it had opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revoke {
    /// The user's login name.
    pub name: String,
    /// The name of the user's zone, if the login name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The id of the token, or its label.
    pub id: String,
}

impl Request for Revoke {
    const VERB: Verb = Verb::TokensRevoke;
    type Answer = Done;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_in_the_answer_and_nowhere_else() {
        let created = Created {
            id: "0a1b".to_owned(),
            token: "stentor_x".to_owned().into(),
        };
        let text = r#"{"id":"0a1b","token":"stentor_x"}"#;
        assert_eq!(serde_json::to_string(&created).expect("it is JSON"), text);
        assert!(!format!("{created:?}").contains("stentor_x"));
    }
}
