"""Who is there, as paho-mqtt sees it: one function per behaviour.

    presence_cases.py CASE VERSION HOST PORT      VERSION: 4 (3.1.1) or 5
"""

import json
import sys

from zone_user import PATIENCE, User, response


def told(user):
    """The next message on a presence topic: of whom, whether online, and whether retained."""
    message = user.messages.get(timeout=PATIENCE)
    tree, name = message.topic.split("/")
    assert tree == "$presence", message.topic
    online = bool(message.payload) and json.loads(message.payload)["state"] == "online"
    return name, online, bool(message.retain)


def lose(user):
    """The connection ends without DISCONNECT."""
    user.client.socket().close()
    user.client.loop_stop()


def wait_until_shown(onlooker, *names):
    """Who has just connected may be shown a moment later, since another shard keeps the zone."""
    assert onlooker.subscribe("$presence/+") == [1]
    missing = set(names)
    while missing:
        name, online, _ = told(onlooker)
        if online:
            missing.discard(name)


def shows_who_comes_and_goes():
    bob, alice = User("bob"), User("alice")
    wait_until_shown(bob, "alice", "bob")
    assert alice.subscribe("$presence/+") == [1]
    known = sorted([told(alice), told(alice)])
    assert known == [("alice", True, True), ("bob", True, True)], known
    eve = User("eve")
    assert told(alice) == ("eve", True, False)
    eve.client.disconnect()
    assert told(alice) == ("eve", False, False)
    lose(bob)
    assert told(alice) == ("bob", False, False)
    alice.expect_nothing_before("nobody else")


def shows_a_user_once():
    alice = User("alice")
    assert alice.subscribe("$presence/bob") == [1]
    bobs = [User("bob", client_id=f"bob-{number}") for number in range(6)]
    assert told(alice) == ("bob", True, False)
    for bob in bobs[1:]:
        lose(bob)
    alice.expect_nothing_before("one is left")
    lose(bobs[0])
    assert told(alice) == ("bob", False, False)


def keeps_zones_apart():
    alice = User("alice")
    assert alice.subscribe("$presence/bob") == [1]
    there = User("other/bob")
    lose(there)
    alice.expect_nothing_before("nobody of another zone")
    User("bob")
    assert told(alice) == ("bob", True, False)


def is_not_forged():
    alice, eve = User("alice"), User("eve")
    assert alice.subscribe("$presence/bob") == [1]
    forged = eve.send("$presence/bob", '{"state":"online"}', retain=True)
    assert forged[0] == response(0x87), forged
    alice.expect_nothing_before("nothing was forged")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
