//! What a zone is to its users, with the clients that they have.

mod adaptors;
mod calls;
mod commands;
mod crowd;
mod documents;
mod examples;
mod javascript;
mod permanent;
mod policies;
mod presence;
mod private;
mod rooms;

use std::sync::OnceLock;

use stentor_tests::{Plan, Server, server};

/// The password of every user.
const PASSWORD: &str = "secret";

fn hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| server::hash_password(PASSWORD))
}

/// A configuration with the users alice, bob and eve, and bob of another zone, over several shards.
fn config() -> String {
    let hash = hash();
    let user = |(name, zone)| {
        format!("[[user]]\nname = \"{name}\"\nzone = \"{zone}\"\npassword_hash = \"{hash}\"\n")
    };
    let users = [
        ("alice", "default"),
        ("bob", "default"),
        ("eve", "default"),
        ("bob", "other"),
    ];
    let users: String = users.map(user).concat();
    format!(
        "shards = 3\nallow_anonymous = true\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n{users}"
    )
}

fn start() -> Server {
    Plan::new().config(&config()).start()
}
