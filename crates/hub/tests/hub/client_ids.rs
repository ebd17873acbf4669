//! Whose a client id is, where that is bound.

use std::sync::Arc;

use crate::world::{ConnectOptions, World, identity, request};
use stentor_hub::{ClientIdBinding, GuestMark, Identity, Settings};
use stentor_mqtt::Version;
use stentor_session::{CloseReason, Denied, Tick};

const FOREIGN: Result<(), CloseReason> = Err(CloseReason::Denied(Denied::ForeignClientId));

fn bound(client_id_binding: ClientIdBinding) -> World {
    World::with_settings(
        2,
        Settings {
            client_id_binding,
            ..Settings::default()
        },
    )
}

fn options(user: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        user: Some(user),
        ..ConnectOptions::persistent()
    }
}

/// A guest: a name that is new with each log-in, and where it comes from.
fn guest(name: &str, mark: u64) -> Arc<Identity> {
    Arc::new(Identity {
        guest: Some(GuestMark(mark)),
        ..(*identity(Some(name), Tick::NEVER, &[])).clone()
    })
}

/// Whether a guest is let in that wants to begin anew.
fn admits_guest(w: &World, id: &str, guest: &Arc<Identity>) -> Result<(), CloseReason> {
    let (request, _) = request(Version::V5, id, &ConnectOptions::default());
    let hub = &w.hubs[usize::from(w.home(id))];
    hub.admit(&request, Arc::clone(guest)).map(|_| ())
}

fn enter_guest(w: &mut World, id: &str, guest: &Arc<Identity>) {
    let (request, _) = request(Version::V5, id, &ConnectOptions::default());
    w.enter(request, Arc::clone(guest).into());
}

#[test]
fn a_guest_is_the_owner_that_comes_from_the_same_address() {
    for binding in [ClientIdBinding::Owner, ClientIdBinding::UserPrefix] {
        let mut w = bound(binding);
        let (first, again, other) = (guest("g1", 7), guest("g2", 7), guest("g3", 8));
        enter_guest(&mut w, "tablet", &first);
        assert_eq!(admits_guest(&w, "tablet", &again), Ok(()));
        assert_eq!(admits_guest(&w, "tablet", &other), FOREIGN);
        // An id of the server's making is known to who was given it.
        let auto = format!("auto-{:032x}", 5);
        enter_guest(&mut w, &auto, &first);
        assert_eq!(admits_guest(&w, &auto, &other), Ok(()));
        assert_eq!(w.admit(Version::V5, &auto, &options("ann")), FOREIGN);
    }
}

/// A connected client keeps the others out; a client whose session waits is not kept out by those
/// that wait.
#[test]
fn owners_of_sessions_from_before_take_turns() {
    let mut w = bound(ClientIdBinding::None);
    let ann = w.connect(Version::V5, "plc", &options("ann"));
    w.drop_link(ann);
    let bob = w.connect(Version::V5, "plc", &options("bob"));
    let settings = Settings {
        client_id_binding: ClientIdBinding::Owner,
        ..Settings::default()
    };
    let settings = Arc::new(settings);
    for hub in &mut w.hubs {
        hub.operate().reconfigure(Arc::clone(&settings));
    }
    assert_eq!(w.admit(Version::V5, "plc", &options("bob")), Ok(()));
    assert_eq!(w.admit(Version::V5, "plc", &options("ann")), FOREIGN);
    w.drop_link(bob);
    assert_eq!(w.admit(Version::V5, "plc", &options("ann")), Ok(()));
    assert_eq!(w.admit(Version::V5, "plc", &options("eve")), FOREIGN);
}
