//! `delay` of a policy: messages of some topics wait for others, to leave together.

use std::time::{Duration, Instant};

use stentor_tests::{Plan, Version};

#[test]
fn messages_of_a_policy_with_a_delay_wait_and_come_together() {
    let config = "[[policy]]\nfilter = \"slow/#\"\ndelay = \"400ms\"\n";
    let server = Plan::new().tcp().anonymous().config(config).start();
    let mut subscriber = server.client(Version::V5, "subscriber");
    subscriber.subscribe("#", 1);
    let mut publisher = server.client(Version::V4, "publisher");
    let start = Instant::now();
    for payload in ["1", "2", "3"] {
        publisher.publish("slow/topic", payload.as_bytes());
    }
    for payload in ["1", "2", "3"] {
        assert_eq!(subscriber.message().1, payload.as_bytes());
        let after = start.elapsed();
        assert!(after >= Duration::from_millis(400), "{after:?}");
    }
    // Other topics are not delayed, and take what waits along, after a reload too.
    server.reconfigure("[[policy]]\nfilter = \"slow/#\"\ndelay = \"1s\"\nqos0 = \"drop-oldest\"\n");
    server.control(&["reload"]).success();
    publisher.publish("slow/topic", b"4");
    publisher.publish("quick/topic", b"5");
    assert_eq!(subscriber.message().1, b"4");
    assert_eq!(subscriber.message().1, b"5");
}

#[test]
fn a_delay_of_more_than_a_second_is_refused() {
    let config = "[[policy]]\nfilter = \"slow/#\"\ndelay = \"2s\"\n";
    let said = Plan::new().tcp().config(config).refused().stderr;
    assert!(said.contains("policy.delay"), "{said}");
}
