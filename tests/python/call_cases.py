"""Calls of procedures as paho-mqtt sees them: one function per behaviour.

    call_cases.py CASE VERSION HOST PORT      VERSION: 4 (3.1.1) or 5
"""

import json
import sys

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from zone_user import PATIENCE, User, response


def answer(user, topic):
    message = user.messages.get(timeout=PATIENCE)
    assert message.topic == topic, message.topic
    return json.loads(message.payload), message


def answers_the_caller_alone():
    alice, other, bob = User("alice"), User("alice", "other"), User("bob")
    for user in (alice, other, bob):
        assert user.subscribe("$reply/#") == [1]
    for qos in (0, 1, 2):
        assert alice.send("$call/echo/17", "12345", qos)[0] == 0
        said, _ = answer(alice, "$reply/17")
        assert (said["status"], said["verdict"], said["result"]) == ("done", "accept", "size=5\n")
    other.expect_nothing_before("for the caller alone")
    bob.expect_nothing_before("for the caller alone")


def says_at_once_what_it_does_not_know():
    alice = User("alice")
    assert alice.subscribe("$reply/+") == [1]
    alice.send("$call/no-such-thing/1")
    said, _ = answer(alice, "$reply/1")
    assert said["status"] == "not-found" and "no-such-thing" in said["text"], said
    assert alice.send("$call/")[0] == response(0x90)
    assert alice.send("$call/a/b/c")[0] == response(0x90)


def refuses_the_nameless():
    nobody = User("nobody", login=False)
    assert nobody.send("$call/noop/1")[0] == response(0x87)


def request(topic=None, correlation=b"c-1", **arguments):
    properties = Properties(PacketTypes.PUBLISH)
    if topic:
        properties.ResponseTopic = topic
        properties.CorrelationData = correlation
    for name, value in arguments.items():
        properties.UserProperty = (name, value)
    return properties


def takes_arguments_and_response_topics():
    alice, bob = User("alice"), User("bob")
    assert alice.subscribe("$reply/#") == [1]
    assert bob.subscribe("answers/alice") == [1]
    for size, verdict in ((3, "reject"), (9, "accept")):
        asked = request("$reply/a/b", max=str(size))
        assert alice.send("$call/sizecheck", "12345", properties=asked)[0] == 0
        said, message = answer(alice, "$reply/a/b")
        assert said["verdict"] == verdict, said
        assert message.properties.CorrelationData == b"c-1"
        assert message.properties.ContentType == "application/json"
    # Where the caller may publish, everybody may listen.
    assert alice.send("$call/noop", properties=request("answers/alice"))[0] == 0
    said, _ = answer(bob, "answers/alice")
    assert said == {"status": "done", "verdict": "accept", "version": said["version"]}, said


def refuses_foreign_response_topics():
    alice, bob = User("alice"), User("bob")
    assert bob.subscribe("$private/#") == [1]
    for topic in ("$private/to/bob", "$private/from/eve", "$SYS/broker/version", "$presence/eve"):
        assert alice.send("$call/noop", properties=request(topic))[0] == 0x87, topic
    bob.expect_nothing_before("nothing was forged")


def answers_many_calls():
    alice = User("alice")
    assert alice.subscribe("$reply/+") == [1]
    for number in range(500):
        asked = request("$reply/many", str(number).encode())
        alice.client.publish("$call/noop", "x", 1, properties=asked)
    left = {str(number).encode() for number in range(500)}
    while left:
        _, message = answer(alice, "$reply/many")
        left.remove(message.properties.CorrelationData)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
