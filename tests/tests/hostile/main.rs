//! Clients that misbehave, beside a healthy one that must notice nothing.

mod accounts;
mod answers;
mod assault;
mod backlogs;
mod bystander;
mod floods;
mod limits;
mod listeners;
mod malformed;
mod slow;
mod storm;
mod web;

use stentor_tests::{Raw, Server, Version};

/// A subscriber and a publisher that expect the server to work as if they were alone.
struct Healthy {
    subscriber: Raw,
    publisher: Raw,
    sent: u64,
}

impl Healthy {
    fn new(server: &Server) -> Self {
        let mut subscriber = server.client(Version::V5, "healthy-subscriber");
        subscriber.subscribe("healthy/#", 0);
        Self {
            subscriber,
            publisher: server.client(Version::V4, "healthy-publisher"),
            sent: 0,
        }
    }

    /// One message there and back, with nothing lost, doubled or foreign before it.
    #[track_caller]
    fn check(&mut self) {
        self.sent += 1;
        let payload = self.sent.to_string().into_bytes();
        self.publisher.publish_surely("healthy/topic", &payload);
        assert_eq!(
            self.subscriber.message(),
            ("healthy/topic".to_owned(), payload)
        );
    }
}
