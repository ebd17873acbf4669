//! The cases of `tests/js/zone_cases.mjs`.

use stentor_tests::{process, tools};

#[track_caller]
fn check(case: &str, version: &str) {
    let server = super::start();
    let mut command = tools::node("zone_cases.mjs");
    command.args([case, version, server.url("mqtt")]);
    process::run(&mut command).success();
}

stentor_tests::cases! {
    "4" in v3_1_1 {
        private_messages_have_a_response_and_a_sender,
        rooms_are_joined_spoken_in_and_left,
        commands_are_called_and_properties_told,
        presence_shows_who_is_there,
    }
    "5" in v5 {
        private_messages_have_a_response_and_a_sender,
        rooms_are_joined_spoken_in_and_left,
        commands_are_called_and_properties_told,
        presence_shows_who_is_there,
    }
}
