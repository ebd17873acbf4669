"""What single zones do otherwise, as paho-mqtt sees it: one function per behaviour.

    zone_cases.py CASE VERSION HOST PORT      VERSION: 4 (3.1.1) or 5

Zone `one` refuses second log-ins, `newest` lets the newest stay and bounds its rooms, `open` lets
guests in and has a room `hall` but lets users make none. PORT is of a listener of no zone.
"""

import json
import queue
import sys
import threading

from zone_user import PATIENCE, V5, User


def refused(code):
    """What 3.1.1 knows of a reason code, as paho shows it."""
    return code if V5 else {0x97: 0x88, 0x9F: 0x88, 0x86: 0x86, 0x87: 0x87}[code]


def the_second_login_is_refused():
    first = User("one/alice", client_id="a")
    User("one/alice", client_id="b", wants=refused(0x97))
    User("one/bob", client_id="c")
    # Its own session may be taken over, and who has gone makes room.
    again = User("one/alice", client_id="a")
    first.ended.get(timeout=PATIENCE)
    again.client.disconnect()
    while True:
        # The server may not have seen yet that it went.
        try:
            third = User("one/alice", client_id="d")
            break
        except AssertionError:
            pass
    assert third.subscribe("a") == [1]


def the_newest_login_stays():
    watcher = User("newest/bob")
    assert watcher.subscribe("$presence/alice") == [1]
    logins = [User("newest/alice", client_id=f"n{n}") for n in range(4)]
    for old in logins[:-1]:
        code = old.ended.get(timeout=PATIENCE)
        assert not V5 or code.value == 0x8E, code
    assert logins[-1].subscribe("a") == [1]
    assert json.loads(watcher.messages.get(timeout=PATIENCE).payload)["state"] == "online"


def of_racing_logins_one_stays():
    """Whoever was let in last is there; all others were told to go."""
    # A password that was verified once is remembered: what races is not the hashing.
    User("newest/alice", client_id="first")
    logins = []
    lock = threading.Lock()

    def login(number):
        user = User("newest/alice", client_id=f"r{number}")
        with lock:
            logins.append(user)

    threads = [threading.Thread(target=login, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(logins) == 12
    # The newest one of all makes every other one end.
    last = User("newest/alice", client_id="last")
    for user in logins:
        user.ended.get(timeout=PATIENCE)
    assert last.subscribe("a") == [1]


def at_once(zone, number):
    """Two log-ins of alice at the same moment."""
    users, ready = [], threading.Barrier(2)

    def login(client_id):
        ready.wait()
        users.append(User(f"{zone}/alice", client_id=client_id, wants=None))

    threads = [threading.Thread(target=login, args=(f"{c}{number}",)) for c in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return users


def of_two_at_once_one_wins():
    """Whatever shards they meet, and though the other one is refused at the same time."""
    watcher = User("one/bob")
    assert watcher.subscribe("$presence/alice") == [1]
    for number in range(40):
        users = at_once("one", number)
        codes = sorted(user.code for user in users)
        assert codes == [0, refused(0x97)], f"round {number}: {codes}"
        for user in users:
            user.client.disconnect()
        # Its place is free when it is seen to be gone.
        while watcher.messages.get(timeout=PATIENCE).payload:
            pass


def of_two_at_once_one_stays():
    for number in range(40):
        users = at_once("newest", number)
        assert [user.code for user in users] == [0, 0], f"round {number}"
        stays = users[1 - first_gone(users)]
        assert stays.subscribe("a") == [1], f"round {number}"
        assert stays.ended.empty(), f"round {number}: both ended"


def first_gone(users):
    """Which connection ends."""
    for _ in range(PATIENCE * 100):
        for at, user in enumerate(users):
            try:
                user.ended.get(timeout=0.005)
                return at
            except queue.Empty:
                pass
    raise AssertionError("both stay")


def refusals_say_why():
    """A sentence for MQTT 5; the reason code says as much as the version has."""
    first = User("one/alice", client_id="a")
    User("one/alice", client_id="b", wants=refused(0x97), says="as many connections")
    for zone in ("one", "nowhere"):
        User(f"{zone}/guest", password=None, wants=refused(0x87), says="no guests")
    only = User("full/alice")
    User("full/bob", wants=refused(0x97), says="the zone has as many")
    # Whether there is such a zone or such a user is nobody's business.
    for name in ("one/alice", "one/nobody", "nowhere/alice"):
        wrong = "the user name, its zone or the password is wrong"
        User(name, client_id="w", password="wrong", wants=refused(0x86), says=wrong)
    assert [user.subscribe("a") for user in (first, only)] == [[1], [1]]


def guests_get_a_name():
    guest = User("open/guest", client_id="g1", password=None)
    other = User("open/guest", client_id="g2", password=None)
    alice = User("open/alice")
    assert alice.subscribe("$private/from/+") == [1]
    assert guest.subscribe("$room/lobby/say/+") == [1]
    assert other.subscribe("$room/lobby/say/+") == [1]
    assert guest.send("$room/lobby/say", "hello")[0] == 0
    heard = other.messages.get(timeout=PATIENCE)
    speaker = heard.topic.rsplit("/", 1)[1]
    assert speaker.startswith("guest%2f") and len(speaker) == len("guest%2f") + 16, speaker
    if V5:
        told = dict(guest.properties.UserProperty)
        assert told["user"].replace("/", "%2f") == speaker, told
    # The role of guests writes to nobody, and topics are not theirs.
    assert guest.send("$private/to/alice", "spam")[0] == (0x87 if V5 else 0)
    assert guest.send("a", "x")[0] == (0x87 if V5 else 0)
    alice.expect_nothing_before("no spam")
    # Where a zone has none, and with a password, it is a name like any other.
    User("guest", password=None, wants=refused(0x87))
    User("open/guest", password="x", wants=refused(0x86))


def guests_keep_their_place():
    """By their session; nobody else gets it."""

    def come(client_id, address=""):
        return User(
            "open/guest", client_id=client_id, password=None, lasting=True, address=address
        )

    def happens(what):
        while (told := json.loads(alice.until("$room/lobby/event")))["event"] != what:
            pass
        return told["user"]

    alice = User("open/alice")
    assert alice.subscribe("$room/lobby/event") == [1]
    guest = come("phone")
    assert guest.subscribe("$room/lobby/say/+") == [1]
    assert guest.subscribe("$private/from/+") == [1]
    name = happens("joined")
    while not name.startswith("guest/"):
        name = happens("joined")
    guest.lose()
    assert happens("away") == name
    # Somebody else, who only knows the client id.
    other = come("phone", "127.0.0.2")
    assert other.subscribe("$room/lobby/say/+") == [1]
    assert happens("joined") != name
    other.client.unsubscribe("$room/lobby/say/+")
    assert happens("left") != name
    assert alice.send(f"$private/to/{name.replace('/', '%2f')}", "are you there?")[0] == 0
    # It takes the client id back, and is who it was.
    guest = come("phone")
    assert happens("back") == name
    if V5:
        assert dict(guest.properties.UserProperty)["user"] == name
    guest.expect("$private/from/alice", "are you there?")
    other.ended.get(timeout=PATIENCE)
    # Who starts anew is somebody new.
    fresh = User("open/guest", client_id="phone", password=None)
    assert fresh.subscribe("$room/lobby/say/+") == [1]
    assert happens("joined") != name


def rooms_of_the_configuration_are_there():
    alice = User("open/alice")
    assert alice.subscribe("$rooms/+") == [1]
    seen = {alice.messages.get(timeout=PATIENCE).topic for _ in range(2)}
    assert seen == {"$rooms/hall", "$rooms/lobby"}, seen
    assert alice.subscribe("$room/hall/#") == [1]
    assert alice.subscribe("$room/mine/#") == [0x87 if V5 else 0x80]
    # Two have room there.
    assert User("open/bob").subscribe("$room/hall/#") == [1]
    full = User("open/guest", client_id="g3", password=None)
    assert full.subscribe("$room/hall/#") == [0x97 if V5 else 0x80]
    for text in ("one", "two", "three"):
        assert alice.send("$room/hall/say", text)[0] == 0
    alice.client.unsubscribe("$room/hall/#")
    late = User("open/eve")
    while late.subscribe("$room/hall/say/+") != [1]:
        pass
    heard = [late.messages.get(timeout=PATIENCE).payload.decode() for _ in range(2)]
    assert heard == ["two", "three"], heard


def the_list_of_rooms_has_the_lobby():
    alice = User("alice")
    assert alice.subscribe("$rooms/+") == [1]
    lobby = alice.messages.get(timeout=PATIENCE)
    assert (lobby.topic, json.loads(lobby.payload)["permanent"]) == ("$rooms/lobby", True)


def users_own_so_many_rooms():
    """Two each, and four in the zone, of which the lobby is one."""
    refused = 0x97 if V5 else 0x80
    alice, bob = User("newest/alice"), User("newest/bob")
    for room, code in (("a1", 1), ("a2", 1), ("a3", refused)):
        assert alice.subscribe(f"$room/{room}/#") == [code], room
    for room, code in (("b1", 1), ("b2", refused), ("a1", 1)):
        assert bob.subscribe(f"$room/{room}/#") == [code], room
    # A room that dissolves makes place for another one.
    alice.client.unsubscribe("$room/a2/#")
    assert alice.subscribe("$room/a3/#") == [1]
    assert bob.subscribe("$room/b2/#") == [refused]


def a_listener_belongs_to_a_zone():
    """PORT is of the listener of zone `one`."""
    here = User("alice", client_id="x")
    assert here.subscribe("t") == [1]
    there = User("one/bob", client_id="y")
    assert there.send("t", "same zone")[0] == 0
    here.expect("t", "same zone")
    User("open/alice", client_id="z", wants=refused(0x87), says="another zone")
    nobody = User("", client_id="w", login=False)
    assert nobody.send("t", "nobody's")[0] == 0
    here.expect("t", "nobody's")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
