"""Private messages as paho-mqtt sees them: one function per behaviour.

    private_cases.py CASE VERSION HOST PORT      VERSION: 4 (3.1.1) or 5

No case sleeps: that nothing else came is shown by a last message behind it.
"""

import json
import sys

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from zone_user import PATIENCE, User, response


def brings_a_response_and_a_notification():
    alice, bob, eve = User("alice"), User("bob"), User("eve")
    phone = User("bob", "phone")
    for user in (bob, phone, eve):
        assert user.subscribe("$private/from/+") == [1]
    assert alice.send("$private/to/bob", "hello")[0] == 0
    bob.expect("$private/from/alice", "hello")
    phone.expect("$private/from/alice", "hello")
    assert alice.send("$private/to/bob", "twice", qos=2)[0] == 0
    bob.expect("$private/from/alice", "twice")
    eve.expect_nothing_before("eve heard nothing")
    assert alice.send("$private/to/nobody")[0] == response(0x10)


def keeps_what_is_stored_for_its_user():
    """Whoever else comes with the client id of a session that waits neither gets what is stored
    there nor destroys it."""
    alice = User("alice")
    assert alice.subscribe("$reply/+") == [1]
    bob = User("bob", "terminal", lasting=True)
    assert bob.subscribe("$private/from/+") == [1]
    bob.client.disconnect()
    bob.ended.get(timeout=PATIENCE)
    status, sent = "", 0
    while status != "stored":
        # The server may not have seen yet that he went.
        sent += 1
        alice.send(f"$private/to/bob/{sent}", f"later {sent}")
        status = json.loads(alice.until(f"$reply/{sent}"))["status"]
    for lasting in (False, True):
        eve = User("eve", "terminal", lasting=lasting)
        assert eve.subscribe("$private/from/+") == [1]
        eve.expect_nothing_before("eve heard nothing")
        eve.client.disconnect()
        eve.ended.get(timeout=PATIENCE)
    bob = User("bob", "terminal", lasting=True)
    assert bob.until("$private/from/alice").startswith("later")
    # One connection has the client id, whoever it is.
    eve = User("eve", "terminal", lasting=True)
    bob.ended.get(timeout=PATIENCE)
    eve.expect_nothing_before("eve heard nothing")


def writes_to_itself():
    alice = User("alice")
    assert alice.subscribe("$private/#") == [1]
    for number in range(100):
        assert alice.send("$private/to/alice", str(number))[0] == 0
        alice.expect("$private/from/alice", str(number))


def stays_in_its_zone():
    here, there, alice = User("bob"), User("other/bob"), User("alice")
    for user in (here, there):
        assert user.subscribe("$private/from/+") == [1]
    assert alice.send("$private/to/bob", "here")[0] == 0
    here.expect("$private/from/alice", "here")
    # A name with a zone is no name of another zone's user.
    assert alice.send("$private/to/other%2fbob", "there")[0] == response(0x10)
    there.expect_nothing_before("nothing from another zone")


def forges_nothing():
    alice, bob = User("alice"), User("bob")
    assert bob.subscribe("$private/from/+") == [1]
    assert bob.subscribe("$reply/+") == [1]
    for topic in ("$private/from/eve", "$private/from/bob", "$reply/1", "$presence/alice"):
        assert alice.send(topic, "forged", retain=True)[0] == response(0x87), topic
    bob.expect_nothing_before("nothing was forged")
    late = User("bob", "late")
    assert late.subscribe("$private/#") == [1]
    late.expect_nothing_before("nothing was kept")


def answers_on_reply_topics():
    alice, other, bob = User("alice"), User("alice", "other"), User("bob")
    assert bob.subscribe("$private/from/+") == [1]
    for user in (alice, other):
        assert user.subscribe("$reply/+") == [1]
    for qos in (0, 1):
        alice.send("$private/to/bob/17", "hello", qos)
        bob.expect("$private/from/alice", "hello")
        message = alice.messages.get(timeout=PATIENCE)
        assert message.topic == "$reply/17"
        answer = json.loads(message.payload)
        assert answer == {"code": 0, "status": "delivered", "to": "bob", "text": ""}, answer
        alice.send("$private/to/nobody/18", "hello", qos)
        answer = json.loads(alice.messages.get(timeout=PATIENCE).payload)
        assert (answer["code"], answer["status"]) == (16, "nobody-listening"), answer
    other.expect_nothing_before("for the caller alone")


def says_what_is_too_large():
    """Only MQTT 5 clients have a limit that the server knows."""
    alice = User("alice")
    small = Properties(PacketTypes.CONNECT)
    small.MaximumPacketSize = 200
    bob = User("bob", connect_properties=small)
    assert bob.subscribe("$private/from/+") == [1]
    code, text = alice.send("$private/to/bob", "x" * 500)
    assert code == 0x97 and text.startswith("too large"), (code, text)
    bob.expect_nothing_before("nothing too large")


def refuses_the_nameless():
    nobody, bob = User("nobody", login=False), User("bob")
    assert bob.subscribe("$private/from/+") == [1]
    assert nobody.subscribe("$private/from/+") == [response(0x87) or 0x80]
    assert nobody.send("$private/to/bob")[0] == response(0x87)
    bob.expect_nothing_before("nothing from nobody")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
