//! The client ids with which users may connect.

use stentor_tests::raw::connect_as;
use stentor_tests::{Raw, Version};

use crate::place::Place;

/// Client Identifier not valid.
const NOT_VALID: u8 = 0x85;

/// Two users, and anonymous clients.
fn place(binding: &str) -> Place {
    let config = format!("allow_anonymous = true\n[auth]\nclient_id_binding = \"{binding}\"\n");
    let place = Place::with_general(&config);
    place.add("ann", &[]);
    place.add("bob", &[]);
    place
}

/// The code of the answer to a CONNECT of nobody in particular.
fn anonymous(place: &Place, client_id: &str) -> (u8, Raw) {
    let mut client = place.server().dial();
    client.send(&connect_as(Version::V5, client_id, true, None));
    client.speaks(Version::V5);
    let code = client.expect(2).body[1];
    (code, client)
}

#[test]
fn without_a_binding_another_user_takes_the_connection_over() {
    let place = place("none");
    let mut ann = place.login_as("ann", "plc");
    let _bob = place.login_as("bob", "plc");
    // Session taken over.
    assert_eq!(ann.expect(14).body[0], 0x8E);
}

#[test]
fn a_client_id_may_have_to_begin_with_the_name_of_its_user() {
    let place = place("user-prefix");
    let mut ann = place.login_as("ann", "ann-plc");
    for (user, client_id, expected) in [
        ("bob", "ann-plc", NOT_VALID),
        ("bob", "ann", NOT_VALID),
        ("bob", "plc", NOT_VALID),
        ("bob", "bobby", NOT_VALID),
        ("bob", "bob", 0),
        ("bob", "bob/plc", 0),
        ("bob", "bob:plc", 0),
        ("bob", "bob.plc", 0),
        ("bob", "", 0),
    ] {
        let (code, _) = place.connect(client_id, (user, user));
        assert_eq!(code, expected, "{user} as {client_id:?}");
    }
    // In MQTT 3.1.1 the code is 2, "identifier rejected".
    let mut old = place.server().dial();
    let bob = Some(("bob", "bob"));
    old.send(&connect_as(Version::V4, "ann-plc", true, bob));
    assert_eq!(old.expect(2).body, [0, 2]);
    place.server().wait_log(0, "auth.client_id_binding");
    // An anonymous client may have any that nobody else has.
    assert_eq!(anonymous(&place, "ann-plc").0, NOT_VALID);
    assert_eq!(anonymous(&place, "bob-tablet").0, 0);
    ann.ping();
    // The user's own newer connection ends the older one, and so it does that of who has no name.
    let (code, mut squatter) = anonymous(&place, "ann-phone");
    assert_eq!(code, 0);
    let _phone = place.login_as("ann", "ann-phone");
    assert_eq!(squatter.expect(14).body[0], 0x8E);
    let _again = place.login_as("ann", "ann-plc");
    assert_eq!(ann.expect(14).body[0], 0x8E);
}

#[test]
fn a_client_id_may_belong_to_whoever_has_a_session_with_it() {
    let place = place("owner");
    let mut ann = place.login_as("ann", "plc");
    let knock = |user: &str, client_id: &str| place.connect(client_id, (user, user)).0;
    assert_eq!(knock("bob", "plc"), NOT_VALID);
    assert_eq!(anonymous(&place, "plc").0, NOT_VALID);
    ann.ping();
    let mut again = place.login_as("ann", "plc");
    assert_eq!(ann.expect(14).body[0], 0x8E);
    // Without a session that outlives it, the id is free when the connection ends.
    again.send(&[0xE0, 0]);
    again.closed();
    stentor_tests::raw::eventually("a free client id", || knock("bob", "plc") == 0);
    // A session that waits keeps it.
    let keep = |user: &str| {
        let mut client = place.server().dial();
        client.send(&connect_as(Version::V4, "kept", false, Some((user, user))));
        client.expect(2).body[1]
    };
    assert_eq!(keep("ann"), 0);
    assert_eq!(keep("bob"), 2);
    assert_eq!(knock("bob", "kept"), NOT_VALID);
    assert_eq!(keep("ann"), 0);
    // Anonymous clients are one: they take over from each other.
    let (_, mut first) = anonymous(&place, "shared");
    let (code, _second) = anonymous(&place, "shared");
    assert_eq!(code, 0);
    assert_eq!(first.expect(14).body[0], 0x8E);
    // The owner of the server may come with any, by the control socket.
    let publish = ["pub", "-t", "t", "-m", "x", "-i", "shared"];
    place.run(&publish).success();
}
