//! What a workload is, in a sentence for somebody who has never heard of it.

use serde_json::Value;

use super::number::grouped;

/// The sentence; empty for a workload that has none.
pub(crate) fn sentence(object: &Value) -> String {
    let parameters = &object["parameters"];
    let count = |key: &str| grouped(parameters[key].as_f64().unwrap_or(0.0));
    let text = match object["workload"].as_str().unwrap_or_default() {
        "fanout" => fanout(parameters),
        "mine" => format!(
            "{} publishers send {} messages a second on {} topics to {} subscribers, who get all \
             of them",
            count("publishers"),
            count("rate"),
            count("topics"),
            count("subscribers")
        ),
        "subscribe" => subscribe(parameters),
        "recover" => format!(
            "{} users subscribe at once to {} topics each that hold a message, and have to get it",
            count("users"),
            count("subscriptions_per_user")
        ),
        "slow" => format!(
            "a client reads more slowly than {} messages a second come on {} topics: how old is \
             what it gets?",
            count("messages_per_s"),
            count("topics")
        ),
        "durable" => durable(parameters),
        "idle" => format!(
            "{} clients are connected and do nothing: how much memory does each take?",
            count("connections")
        ),
        "connect" => format!(
            "{} clients connect at the same moment",
            count("connections")
        ),
        "login" => login(parameters),
        "private" => private(parameters),
        "pingpong" => {
            "two clients send one message to and fro: how long does a round trip take?".to_owned()
        }
        "call" => "a mail server's filter asks about one mail after the other".to_owned(),
        _ => return String::new(),
    };
    let carrier = match parameters["transport"].as_str() {
        Some("mqtts") => ", over TLS",
        Some("ws") => ", over WebSocket",
        Some("wss") => ", over WebSocket with TLS",
        Some("unix") => ", over a Unix socket",
        _ => "",
    };
    let sure = match parameters["qos"].as_u64() {
        Some(1) => ", each acknowledged (QoS 1)",
        Some(2) => ", each exactly once (QoS 2)",
        _ => "",
    };
    let (text, end) = match text.strip_suffix('?') {
        Some(question) => (question, '?'),
        None => (&*text, '.'),
    };
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    let rest = letters.as_str();
    format!("{}{rest}{sure}{carrier}{end}", first.unwrap_or_default())
}

fn durable(parameters: &Value) -> String {
    let count = |key: &str| grouped(parameters[key].as_f64().unwrap_or(0.0));
    let (sessions, messages) = (count("sessions"), count("messages"));
    match parameters["what"].as_str().unwrap_or_default() {
        "one-topic" => format!(
            "{messages} messages wait for each of {sessions} clients that are away, all on one topic"
        ),
        "own-topics" => format!(
            "{messages} messages wait for each of {sessions} clients that are away, each on a topic \
             of its own"
        ),
        "connected" => format!(
            "{} subscribers whose sessions outlive their connections, beside as many whose do not",
            count("subscribers_of_each_kind")
        ),
        "kills" => format!(
            "the server is killed {} times while messages are acknowledged: does each reach all \
             {sessions} sessions?",
            count("kills")
        ),
        "backlog" => {
            format!("{messages} messages wait for one client that is away, and then comes back")
        }
        "start" => format!(
            "a server starts with {sessions} sessions and {messages} messages for each: how long \
             until all are served?"
        ),
        _ => String::new(),
    }
}

fn subscribe(parameters: &Value) -> String {
    let count = |key: &str| grouped(parameters[key].as_f64().unwrap_or(0.0));
    let (users, each) = (count("users"), count("subscriptions_per_user"));
    let whose = match parameters["topics"].as_str() {
        Some("shared") => ", all to the same topics",
        Some("distinct") => ", each to topics of its own",
        _ => "",
    };
    format!("{users} users send {each} subscriptions each at the same moment{whose}")
}

fn login(parameters: &Value) -> String {
    let accounts = grouped(parameters["connections"].as_f64().unwrap_or(0.0));
    let proof = match parameters["proof"].as_str() {
        Some("token") => ", with tokens",
        Some("scram-sha256") => ", with passwords that are never sent (SCRAM)",
        _ => "",
    };
    format!("{accounts} accounts that nobody has used before log in at the same moment{proof}")
}

fn fanout(parameters: &Value) -> String {
    let count = |key: &str| grouped(parameters[key].as_f64().unwrap_or(0.0));
    let (publishers, subscribers) = (count("publishers"), count("subscribers"));
    let bytes = count("payload_bytes");
    let rate = parameters["rate_per_publisher"].as_f64();
    match (rate, parameters["ramp_step"].is_number()) {
        (Some(rate), false) => format!(
            "{publishers} publishers send {rate} messages of {bytes} bytes a second each to \
             {subscribers} subscribers: {} deliveries a second",
            grouped(rate * parameters["subscribers"].as_f64().unwrap_or(0.0))
        ),
        (Some(_), true) => format!(
            "{publishers} publishers send more and more messages of {bytes} bytes to {subscribers} \
             subscribers: how many are too many?"
        ),
        (None, _) => format!(
            "{publishers} publishers send messages of {bytes} bytes to {subscribers} subscribers \
             as fast as nothing is lost"
        ),
    }
}

fn private(parameters: &Value) -> String {
    let clients = grouped(parameters["clients"].as_f64().unwrap_or(0.0));
    let every = match parameters["period_seconds"].as_f64().unwrap_or(0.0) {
        1.0 => "every second".to_owned(),
        seconds => format!("every {seconds} seconds"),
    };
    let what = match parameters["scene"].as_str() {
        Some("room") => "each says a word to a room that all are in",
        Some("topic") => "each publishes to a topic that all read",
        Some("adaptor") => "each writes itself a private message that the operator's code judges",
        Some("own topic" | "own-topic") => "each publishes to a topic of its own",
        _ => "each writes itself a private message",
    };
    match parameters["ramp_step"].is_number() {
        true => format!("more and more clients, and {what} {every}: how many are too many?"),
        false => format!("{clients} clients, and {what} {every}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stranger_understands_the_sentence() {
        for (object, expected) in [
            (
                json!({ "workload": "login", "parameters": {
                    "connections": 3_000, "proof": "token",
                } }),
                "3,000 accounts that nobody has used before log in at the same moment, with tokens.",
            ),
            (
                json!({ "workload": "idle", "parameters": {
                    "connections": 15_000, "transport": "mqtts", "qos": 0,
                } }),
                "15,000 clients are connected and do nothing: how much memory does each take, over \
                 TLS?",
            ),
            (
                json!({ "workload": "fanout", "parameters": {
                    "publishers": 5, "subscribers": 3_000, "rate_per_publisher": 35.0,
                    "payload_bytes": 100,
                } }),
                "5 publishers send 35 messages of 100 bytes a second each to 3,000 subscribers: \
                 105,000 deliveries a second.",
            ),
            (
                json!({ "workload": "private", "parameters": {
                    "clients": 1_000, "period_seconds": 1, "scene": "adaptor", "ramp_step": null,
                } }),
                "1,000 clients, and each writes itself a private message that the operator's code \
                 judges every second.",
            ),
            (
                json!({ "workload": "private", "parameters": {
                    "clients": 1_000, "period_seconds": 100, "scene": "topic",
                } }),
                "1,000 clients, and each publishes to a topic that all read every 100 seconds.",
            ),
            (json!({ "workload": "other" }), ""),
        ] {
            assert_eq!(sentence(&object), expected);
        }
    }
}
