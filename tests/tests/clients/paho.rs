//! The cases of `tests/python/paho_cases.py`, each with a server of its own.

use stentor_tests::{Server, tools};

#[track_caller]
fn check(case: &str, version: &str) {
    tools::python_case("paho_cases.py", case, version, &Server::open());
}

stentor_tests::cases! {
    "3" in v3_1 {
        delivers_each_qos,
        keeps_the_order_of_many_messages,
        hands_out_retained_messages,
        publishes_the_will_of_a_lost_client,
        discards_the_will_of_a_client_that_says_goodbye,
        keeps_a_session_with_its_messages,
        hands_a_session_to_the_newer_connection,
        stops_delivery_on_unsubscribe,
    }
    "4" in v3_1_1 {
        delivers_each_qos,
        keeps_the_order_of_many_messages,
        delivers_large_payloads,
        hands_out_retained_messages,
        publishes_the_will_of_a_lost_client,
        discards_the_will_of_a_client_that_says_goodbye,
        keeps_a_session_with_its_messages,
        hands_a_session_to_the_newer_connection,
        matches_wildcards,
        stops_delivery_on_unsubscribe,
        hides_system_topics_from_wildcards,
        balances_shared_subscriptions,
        sends_again_what_a_vanished_client_did_not_acknowledge,
    }
    "5" in v5 {
        delivers_each_qos,
        keeps_the_order_of_many_messages,
        delivers_large_payloads,
        hands_out_retained_messages,
        publishes_the_will_of_a_lost_client,
        discards_the_will_of_a_client_that_says_goodbye,
        keeps_a_session_with_its_messages,
        hands_a_session_to_the_newer_connection,
        matches_wildcards,
        stops_delivery_on_unsubscribe,
        hides_system_topics_from_wildcards,
        balances_shared_subscriptions,
        sends_again_what_a_vanished_client_did_not_acknowledge,
        carries_properties_in_order,
        reports_subscription_identifiers,
        honours_subscription_options,
        honours_retain_handling,
        assigns_client_ids,
        accepts_topic_aliases,
        lets_messages_expire,
        ends_a_will_delay_with_the_session,
        cancels_a_delayed_will_on_return,
        publishes_the_will_on_request,
        respects_the_clients_receive_maximum,
        respects_the_clients_maximum_packet_size,
        refuses_a_packet_beyond_its_own_maximum,
        answers_unsubscribe_with_codes,
        ends_a_session_when_asked,
        refuses_unknown_authentication,
    }
}

/// Two files that must name the same cases: a case that no test runs would look covered.
#[test]
fn every_case_is_run() {
    let script = std::fs::read_to_string(tools::folder().join("python/paho_cases.py"))
        .expect("the script can be read");
    let this = include_str!("paho.rs");
    for line in script.lines() {
        if let Some(case) = line
            .strip_prefix("def ")
            .and_then(|line| line.strip_suffix("():"))
        {
            assert!(
                this.contains(&format!("        {case},")),
                "no test runs {case}"
            );
        }
    }
}
