//! Users of the database by clients of other people: paho-mqtt and MQTT.js.

use std::fs;

use stentor_tests::{Plan, Server, process, tools};

/// A server with the user ann, whose password is "secret" and who has a token.
fn with_ann() -> (Server, String) {
    let server = Plan::new().tcp().start();
    let file = server.folder().join("password");
    fs::write(&file, "secret\n").expect("a file can be written");
    let file = file.to_str().expect("plain names");
    let rules = ["role", "add", "half", "--rule", "allow both yes/#"];
    server.control(&rules).success();
    let add = [
        "user",
        "add",
        "ann",
        "--password-file",
        file,
        "--scram",
        "--role",
        "half",
    ];
    server.control(&add).success();
    let made = server.json(&["token", "create", "ann"]);
    let token = made["token"].as_str().expect("a token is shown").to_owned();
    (server, token)
}

mod paho {
    use super::{tools, with_ann};

    #[track_caller]
    fn check(case: &str, version: &str) {
        let (server, token) = with_ann();
        let mut script = tools::python("login_cases.py");
        tools::run_case(script.env("LOGIN_TOKEN", token), case, version, &server);
    }

    stentor_tests::cases! {
        "4" in v3_1_1 {
            a_password_and_a_token_let_in,
            wrong_names_and_passwords_look_the_same,
            rights_hold,
        }
        "5" in v5 {
            a_password_and_a_token_let_in,
            wrong_names_and_passwords_look_the_same,
            rights_hold,
        }
    }
}

mod mqttjs {
    use super::{process, tools, with_ann};

    #[track_caller]
    fn check(case: &str, version: &str) {
        let (server, token) = with_ann();
        let mut command = tools::node("login_cases.mjs");
        command.env("LOGIN_TOKEN", token);
        process::run(command.args([case, version, server.url("mqtt")])).success();
    }

    stentor_tests::cases! {
        "4" in v3_1_1 {
            a_password_and_a_token_let_in,
            wrong_names_and_passwords_look_the_same,
            rights_hold,
        }
        "5" in v5 {
            a_password_and_a_token_let_in,
            wrong_names_and_passwords_look_the_same,
            rights_hold,
            scram_lets_in_without_showing_the_password,
            scram_refuses_a_wrong_password,
        }
    }
}
