//! The clients that connect, and how they do it.

use std::sync::Arc;

use stentor_hub::{Access, Identity, Rights};
use stentor_mqtt::{Connect, PropertyBuf, QoS, Version, Will};
use stentor_session::{ConnectRequest, Tick};
use stentor_topic::Zone;

/// Everything is allowed but what begins so.
pub struct TestRights(Vec<String>);

impl TestRights {
    pub fn denying(prefixes: &[&str]) -> Arc<dyn Rights> {
        Arc::new(Self(prefixes.iter().map(ToString::to_string).collect()))
    }

    fn denies(&self, topic: &str) -> bool {
        self.0.iter().any(|prefix| topic.starts_with(prefix))
    }
}

impl Rights for TestRights {
    fn may_publish(&self, topic: &str) -> bool {
        !self.denies(topic)
    }
    fn may_subscribe(&self, filter: &str) -> Access {
        let literal = stentor_topic::literal_prefix(filter);
        let reaches = |prefix: &String| prefix.starts_with(literal);
        if self.denies(filter) {
            Access::Nothing
        } else if literal != filter && self.0.iter().any(reaches) {
            Access::Part
        } else {
            Access::All
        }
    }
    fn may_receive(&self, topic: &str) -> bool {
        !self.denies(topic)
    }
    /// Named after what they deny.
    fn roles(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

#[derive(Clone, Debug)]
pub struct ConnectOptions<'a> {
    pub clean_start: bool,
    pub expiry_secs: u32,
    pub keep_alive_secs: u16,
    pub receive_maximum: u16,
    pub alias_maximum: u16,
    pub packet_bytes_max: u32,
    pub will: Option<(&'a str, &'a str, u32)>,
    pub will_retain: bool,
    pub will_user_properties: &'a [(&'a str, &'a str)],
    pub response_information: bool,
    pub user: Option<&'a str>,
    pub bridge: bool,
    /// The enhanced authentication method that let the client in.
    pub method: Option<&'a str>,
    pub expires_at: Tick,
    /// The beginnings of topics that it may neither publish nor receive.
    pub denied: &'a [&'a str],
}

impl Default for ConnectOptions<'_> {
    fn default() -> Self {
        Self {
            clean_start: true,
            expiry_secs: 0,
            keep_alive_secs: 0,
            receive_maximum: 65_535,
            alias_maximum: 0,
            packet_bytes_max: 0,
            will: None,
            will_retain: false,
            will_user_properties: &[],
            response_information: false,
            user: None,
            bridge: false,
            method: None,
            expires_at: Tick::NEVER,
            denied: &["secret/"],
        }
    }
}

impl ConnectOptions<'_> {
    pub fn persistent() -> Self {
        Self {
            clean_start: false,
            expiry_secs: u32::MAX,
            ..Self::default()
        }
    }
}

/// A connection without a session that outlives it, and with nothing special.
pub fn clean() -> ConnectOptions<'static> {
    ConnectOptions::default()
}

/// Somebody with the test's rights.
pub fn identity(user: Option<&str>, expires_at: Tick, denied: &[&str]) -> Arc<Identity> {
    Arc::new(Identity {
        user: user.map(Arc::from),
        zone: Zone(0),
        rights: TestRights::denying(denied),
        expires_at,
        guest: None,
    })
}

/// What a client asks for, and who it is.
pub fn request(
    version: Version,
    id: &str,
    options: &ConnectOptions<'_>,
) -> (ConnectRequest, Arc<Identity>) {
    let mut properties = PropertyBuf::new();
    let mut will_properties = PropertyBuf::new();
    if version.is_v5() {
        use stentor_mqtt::Property as P;
        properties.push(P::SessionExpiryInterval(options.expiry_secs));
        properties.push(P::ReceiveMaximum(options.receive_maximum));
        if options.alias_maximum > 0 {
            properties.push(P::TopicAliasMaximum(options.alias_maximum));
        }
        if options.response_information {
            properties.push(P::RequestResponseInformation(true));
        }
        if options.packet_bytes_max > 0 {
            properties.push(P::MaximumPacketSize(options.packet_bytes_max));
        }
        if let Some(method) = options.method {
            properties.push(P::AuthenticationMethod(method));
            properties.push(P::AuthenticationData(b"last"));
        }
        if let Some((_, _, delay)) = options.will {
            will_properties.push(P::WillDelayInterval(delay));
            for pair in options.will_user_properties {
                will_properties.push(P::UserProperty(*pair));
            }
        }
    }
    let request = ConnectRequest::new(&Connect {
        version,
        bridge: options.bridge,
        clean_start: options.clean_start,
        keep_alive_secs: options.keep_alive_secs,
        client_id: id,
        will: options.will.map(|(topic, payload, _)| Will {
            qos: QoS::AtLeastOnce,
            retain: options.will_retain,
            topic,
            payload: payload.as_bytes(),
            properties: will_properties.as_properties(),
        }),
        username: None,
        password: None,
        properties: properties.as_properties(),
    });
    let identity = identity(options.user, options.expires_at, options.denied);
    (request, identity)
}
