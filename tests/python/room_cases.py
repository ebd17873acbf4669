"""Rooms as paho-mqtt sees them: one function per behaviour.

    room_cases.py CASE VERSION HOST PORT      VERSION: 4 (3.1.1) or 5
"""

import json
import sys

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from zone_user import PATIENCE, V5, User, response


def command(caller, verb, /, **words):
    caller.send(f"$call/room.{verb}/cmd", json.dumps(words))
    return json.loads(caller.until("$reply/cmd"))


def event(user, room="tea"):
    return json.loads(user.until(f"$room/{room}/event"))


def hears_the_speakers_name():
    alice, bob, eve = User("alice"), User("bob"), User("eve")
    assert alice.subscribe("$room/tea/#") == [1]
    assert bob.subscribe("$room/tea/say/+") == [1]
    assert alice.send("$room/tea/say", "hello")[0] == 0
    for user in (alice, bob):
        assert user.until("$room/tea/say/alice") == "hello"
    assert eve.send("$room/tea/say", "psst")[0] == response(0x87)
    assert alice.send("$room/tea/say/bob", "forged")[0] == response(0x87)
    bob.expect_nothing_before("nothing was forged")


def tells_who_comes_and_goes():
    alice, bob = User("alice"), User("bob")
    assert alice.subscribe("$room/tea/event") == [1]
    assert bob.subscribe("$room/tea/#") == [1]
    told = event(alice)
    assert (told["event"], told["user"], told["members"]) == ("joined", "bob", 2), told
    assert json.loads(bob.until("$room/tea/member/bob"))["state"] == "here"
    bob.client.unsubscribe("$room/tea/#")
    told = event(alice)
    assert (told["event"], told["user"], told["reason"]) == ("left", "bob", "left"), told
    eve = User("eve")
    assert eve.subscribe("$room/tea/event") == [1]
    assert event(alice)["user"] == "eve"
    eve.lose()
    assert event(alice)["event"] == "away"
    again = User("eve")
    assert again.subscribe("$room/tea/event") == [1]
    assert event(alice)["event"] == "back"


def comes_back_and_is_told():
    """Who was sent out while its connection was lost, and does not make a closed room again."""
    alice, bob = User("alice"), User("bob", lasting=True)
    for user in (alice, bob):
        assert user.subscribe("$reply/+") == [1]
    for verb, error in (("kick", "kicked"), ("close", "closed")):
        assert alice.subscribe("$room/tea/#") == [1]
        assert bob.subscribe("$room/tea/event") == [1]
        bob.lose()
        while event(alice)["event"] != "away":
            pass
        words = {"user": "bob"} if verb == "kick" else {}
        assert command(alice, verb, room="tea", **words)["status"] == "done"
        bob = User("bob", lasting=True)
        told = json.loads(bob.until("$reply/join"))
        assert (told["code"], told["error"], told["room"]) == (0x98, error, "tea"), told
        listed = command(alice, "list")["result"]["rooms"]
        tea = [room["members"] for room in listed if room["room"] == "tea"]
        assert tea == ([1] if verb == "kick" else []), listed


def refuses_with_a_reason():
    alice, bob = User("alice"), User("bob")
    for user in (alice, bob):
        assert user.subscribe("$reply/+") == [1]
    made = command(alice, "create", room="tea", capacity=1)
    assert made == {"status": "done", "result": {"room": "tea"}}, made
    assert alice.subscribe("$room/tea/#") == [1]
    assert bob.subscribe("$room/tea/#") == [0x97 if V5 else 0x80]
    if not V5:
        assert json.loads(bob.until("$reply/join"))["error"] == "full"
    for wild in ("$room/+/#", "$room/#"):
        assert bob.subscribe(wild) == [0x8F if V5 else 0x80]
        if not V5:
            told = json.loads(bob.until("$reply/join"))
            assert (told["code"], told["error"]) == (0x8F, "no-room"), told
    assert command(bob, "close", room="tea")["error"] == "not-owner"
    command(alice, "change", room="tea", capacity=0)
    assert bob.subscribe("$room/tea/#") == [1]
    assert command(alice, "kick", room="tea", user="bob")["status"] == "done"
    # It hears that it is out before it hears nothing any more.
    while (told := event(bob))["event"] != "left":
        pass
    assert (told["user"], told["reason"]) == ("bob", "kicked"), told
    told = json.loads(bob.until("$reply/join"))
    assert (told["code"], told["error"], told["room"]) == (0x98, "kicked", "tea"), told
    assert bob.send("$room/tea/say", "am I?")[0] == response(0x87)


def properties_are_compared_and_locked():
    """What is set is told to all; of two who set it at once one does; a lock ends with its user."""
    alice, bob = User("alice"), User("bob")
    for user in (alice, bob):
        assert user.subscribe("$reply/+") == [1]
        assert user.subscribe("$room/tea/#") == [1]
    made = command(alice, "set", room="tea", name="cake", value="plum", if_absent=True)
    version = made["result"]["version"]
    told = json.loads(bob.until("$room/tea/prop/cake"))
    assert (told["value"], told["by"], told["version"]) == ("plum", "alice", version), told
    late = command(bob, "set", room="tea", name="cake", value="nut", if_version=version - 1)
    assert (late["error"], late["code"]) == ("conflict", 0x83), late
    done = command(bob, "set", room="tea", name="cake", value="nut", if_version=version)
    assert done["status"] == "done", done
    while json.loads(alice.until("$room/tea/prop/cake"))["value"] != "nut":
        pass
    assert command(bob, "lock", room="tea", name="cake")["status"] == "done"
    assert json.loads(alice.until("$room/tea/prop/cake"))["lock"] == "bob"
    locked = command(alice, "set", room="tea", name="cake", value="mine")
    assert locked["error"] == "property-locked", locked
    bob.client.unsubscribe("$room/tea/#")
    assert "lock" not in json.loads(alice.until("$room/tea/prop/cake"))
    gone = command(alice, "set", room="tea", name="cake", value=None)
    assert gone["status"] == "done", gone
    assert command(alice, "info", room="tea")["result"]["room"]["properties"] == {}


def finds_a_room_that_suits():
    """One that has the properties and a place, or a new one."""
    alice, bob = User("alice"), User("bob")
    for user in (alice, bob):
        assert user.subscribe("$reply/+") == [1]
    words = {"properties": {"game": "go"}, "capacity": 1}
    made = command(alice, "match", create="go1", **words)["result"]
    assert made == {"room": "go1", "created": True}, made
    found = command(bob, "match", create="go2", **words)["result"]
    assert found == {"room": "go1", "created": False}, found
    assert alice.subscribe("$room/go1/#") == [1]
    made = command(bob, "match", create="go2", **words)["result"]
    assert made == {"room": "go2", "created": True}, "the other one is full"
    none = command(bob, "match", properties={"game": "chess"})
    assert none["error"] == "unknown", none


def holds_the_place_that_it_finds():
    """Nobody else takes a place that is held, until its time is over."""
    users = alice, bob, eve = User("alice"), User("bob"), User("eve")
    for user in users:
        assert user.subscribe("$reply/+") == [1]
    words = {"properties": {"game": "duel"}, "capacity": 2}
    made = command(alice, "match", create="duel", hold=60, **words)["result"]
    assert made == {"room": "duel", "created": True, "held_secs": 60}, made
    found = command(bob, "match", hold=2, **words)["result"]
    assert found == {"room": "duel", "created": False, "held_secs": 2}, found
    none = command(eve, "match", hold=60, **words)
    assert none["error"] == "unknown", none
    assert eve.subscribe("$room/duel/#")[0] >= 128, "both places are held"
    assert alice.subscribe("$room/duel/#") == [1]
    # Bob does not come.
    while eve.subscribe("$room/duel/#")[0] >= 128:
        pass
    assert bob.subscribe("$room/duel/#")[0] >= 128
    bad = command(bob, "match", hold=61, **words)
    assert (bad["status"], bad["part"]) == ("bad-call", "hold"), bad


def finds_a_room_by_ranges():
    """One whose number of members and whose numbers lie in ranges; a new one gets its own."""
    alice, bob = User("alice"), User("bob")
    for user in (alice, bob):
        assert user.subscribe("$reply/+") == [1]
    words = {"ranges": {"level": {"min": 10, "max": 20}}, "members": {"max": 2}}
    new = {"create": "r1", "create_properties": {"level": 12}}
    made = command(alice, "match", **words, **new)["result"]
    assert made == {"room": "r1", "created": True}, made
    assert alice.subscribe("$room/r1/#") == [1]
    found = command(bob, "match", **words, create="r2", create_properties={"level": 13})
    assert found["result"] == {"room": "r1", "created": False}, found
    for far in ({"ranges": {"level": {"min": 13}}}, {"members": {"min": 2}}):
        none = command(bob, "match", **far)
        assert none["error"] == "unknown", (far, none)
    bad = command(bob, "match", members={"min": 3, "max": 2})
    assert (bad["status"], bad["part"]) == ("bad-call", "members"), bad


def hides_rooms_from_who_has_no_right():
    """The user dan has no right to the room `den`; to `open` he has."""
    alice, dan = User("alice"), User("dan")
    for user in (alice, dan):
        assert user.subscribe("$reply/+") == [1]
    for room in ("den", "open"):
        made = command(alice, "create", room=room, properties={"kind": "card"})
        assert made["status"] == "done", made
        assert alice.subscribe(f"$room/{room}/event") == [1]
    assert dan.subscribe("$room/den/#") == [0x87 if V5 else 0x80]
    if not V5:
        told = json.loads(dan.until("$reply/join"))
        assert (told["code"], told["error"], told["room"]) == (0x87, "not-allowed", "den"), told
    for name, words in (
        ("info", {"room": "den"}),
        ("info", {"room": "den-that-is-not-there"}),
        ("create", {"room": "den2"}),
        ("set", {"room": "den", "name": "kind", "value": 1}),
    ):
        refused = command(dan, name, **words)
        assert refused.get("code") == 0x87, (name, refused)
    listed = command(dan, "list")["result"]
    assert [room["room"] for room in listed["rooms"]] == ["lobby", "open"], listed
    assert listed["total"] == 2, listed
    found = command(dan, "match", properties={"kind": "card"})
    assert found["result"] == {"room": "open", "created": False}, found
    shown = command(dan, "info", room="open")["result"]
    assert shown["members"] == ["alice"] and shown["room"]["properties"] == {"kind": "card"}, shown
    # Who could not come in sees nobody there either.
    assert command(alice, "change", room="open", locked=True)["status"] == "done"
    assert "members" not in command(dan, "info", room="open")["result"]
    assert command(alice, "info", room="open")["result"]["members"] == ["alice"]


def answers_go_where_the_caller_may_publish():
    """Whatever the answer: dan may not publish below `notice/`."""
    alice, dan = User("alice"), User("dan")
    assert alice.subscribe("notice/#") == [1]
    for user in (alice, dan):
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic = "notice/rooms"
        code, _ = user.send("$call/room.list", "{}", properties=properties)
        assert code == (0 if user is alice else 0x87), code
    assert json.loads(alice.until("notice/rooms"))["status"] == "done"
    alice.expect_nothing_before("one answer only")
    assert dan.subscribe("$share/g/notice/#") == [0x87]
    assert dan.subscribe("$share/g/$room/tea/#") == [0x8F]


def sends_what_was_said_before():
    alice, bob = User("alice"), User("bob")
    assert alice.subscribe("$reply/+") == [1]
    made = command(alice, "create", room="tea", history={"count": 2})["result"]
    assert made["history"] == {"count": 2, "bytes": 1 << 20, "age_secs": None}, made
    assert alice.subscribe("$room/tea/event") == [1]
    for text in ("one", "two", "three"):
        assert alice.send("$room/tea/say", text)[0] == 0
    # The room has heard her before it answers; an acknowledgement in 3.1.1 does not say so.
    command(alice, "info", room="tea")
    assert bob.subscribe("$room/tea/say/+") == [1]
    assert alice.send("$room/tea/say", "four")[0] == 0
    for text, is_past in (("two", True), ("three", True), ("four", False)):
        message = bob.messages.get(timeout=PATIENCE)
        assert (message.payload.decode(), bool(message.retain)) == (text, is_past), message.payload
        if V5 and is_past:
            assert int(dict(message.properties.UserProperty)["history-age-ms"]) >= 0
    # Whoever asks for more than is granted is told.
    changed = command(alice, "change", room="tea", history={"count": 9999, "age_secs": 60})
    assert changed["result"]["history"]["count"] == 1000, changed
    assert changed["result"]["history"]["age_secs"] == 60, changed


def keeps_zones_apart():
    here, there = User("bob"), User("other/bob")
    for user in (here, there):
        assert user.subscribe("$room/tea/say/+") == [1]
    assert here.send("$room/tea/say", "here")[0] == 0
    here.expect("$room/tea/say/bob", "here")
    there.expect_nothing_before("nothing from another zone")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
