//! The cases of `tests/js/mqttjs_cases.mjs` over every transport that MQTT.js has.

use stentor_tests::{Plan, process, tools};

#[track_caller]
fn check(case: &str, version: &str, scheme: &str) {
    let plan = Plan::new()
        .anonymous()
        .listen(&format!("{scheme}://127.0.0.1:0"));
    let (plan, authority) = if scheme.ends_with('s') && scheme != "ws" {
        let (plan, certificates) = plan.certificates();
        (plan, Some(certificates.authority()))
    } else {
        (plan, None)
    };
    let server = plan.start();
    let mut command = tools::node("mqttjs_cases.mjs");
    command
        .args([case, version, server.url(scheme)])
        .args(authority);
    process::run(&mut command).success();
}

macro_rules! cases {
    ($($module:ident: $version:literal over $scheme:literal { $($case:ident,)+ })+) => {
        $(mod $module {
            $(#[test]
            fn $case() {
                super::check(stringify!($case), $version, $scheme);
            })+
        })+
    };
}

cases! {
    tcp_v3_1_1: "4" over "mqtt" {
        delivers_each_qos,
        hands_out_retained_messages,
        delivers_large_payloads,
        keeps_the_order_of_many_messages,
        publishes_the_will_of_a_lost_client,
        keeps_a_session_with_its_messages,
    }
    tcp_v5: "5" over "mqtt" {
        delivers_each_qos,
        hands_out_retained_messages,
        delivers_large_payloads,
        keeps_the_order_of_many_messages,
        publishes_the_will_of_a_lost_client,
        keeps_a_session_with_its_messages,
        answers_requests_with_properties,
        assigns_topic_aliases,
    }
    tls_v3_1_1: "4" over "mqtts" {
        delivers_each_qos,
        delivers_large_payloads,
        publishes_the_will_of_a_lost_client,
    }
    tls_v5: "5" over "mqtts" {
        delivers_each_qos,
        delivers_large_payloads,
        keeps_the_order_of_many_messages,
        keeps_a_session_with_its_messages,
    }
    websocket_v3_1_1: "4" over "ws" {
        delivers_each_qos,
        hands_out_retained_messages,
        delivers_large_payloads,
        publishes_the_will_of_a_lost_client,
        keeps_a_session_with_its_messages,
    }
    websocket_v5: "5" over "ws" {
        delivers_each_qos,
        delivers_large_payloads,
        keeps_the_order_of_many_messages,
        keeps_a_session_with_its_messages,
        answers_requests_with_properties,
        assigns_topic_aliases,
    }
    secure_websocket_v3_1_1: "4" over "wss" {
        delivers_each_qos,
        delivers_large_payloads,
    }
    secure_websocket_v5: "5" over "wss" {
        delivers_each_qos,
        delivers_large_payloads,
        keeps_the_order_of_many_messages,
        publishes_the_will_of_a_lost_client,
    }
}
