"""What adaptors make of what clients do, as paho-mqtt sees it: one function per behaviour.

    adaptor_cases.py CASE VERSION HOST PORT      VERSION: 4 (3.1.1) or 5

The server asks `tests/luau/judge.luau` in the zone `game`, where alice and bob are; in the zone
default, where they are too, it asks nobody.
"""

import json
import sys

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from zone_user import PATIENCE, V5, User, response


def what_is_said_is_judged():
    alice, bob = User("game/alice"), User("game/bob")
    for user in (alice, bob):
        assert user.subscribe("$room/tea/say/+") == [1]
    code, text = alice.send("$room/tea/say", "damn")
    assert code == response(0x83) and text == ("mind your words" if V5 else ""), (code, text)
    assert alice.send("$room/tea/say", "change me")[0] == 0
    assert bob.until("$room/tea/say/alice") == "changed"
    here = User("alice")
    assert here.subscribe("$room/tea/say/+") == [1]
    assert here.send("$room/tea/say", "damn")[0] == 0


def order_is_kept():
    alice, bob = User("game/alice"), User("game/bob")
    assert bob.subscribe("t/#") == [1]
    for number in range(200):
        # Every other one is judged.
        topic = "t/judged" if number % 2 else "t/free"
        alice.client.publish(topic, str(number), 1)
    for number in range(200):
        assert int(bob.messages.get(timeout=PATIENCE).payload) == number


def private_messages_are_judged():
    alice, bob = User("game/alice"), User("game/bob")
    assert bob.subscribe("$private/from/+") == [1]
    assert alice.subscribe("$reply/+") == [1]
    assert alice.send("$private/to/bob/1", "no")[0] == response(0x83)
    said = json.loads(alice.until("$reply/1"))
    assert (said["code"], said["status"], said["text"]) == (0x83, "refused", "not that"), said
    assert alice.send("$private/to/bob/2", "hide")[0] == 0
    assert json.loads(alice.until("$reply/2"))["status"] == "delivered"
    assert alice.send("$private/to/bob/3", "mute")[0] == 0
    bob.expect("$private/from/alice", "mute")
    assert alice.send("$private/to/bob/4", "plain")[0] == 0
    assert json.loads(alice.until("$reply/4"))["status"] == "delivered", "no reply for 3"
    bob.expect("$private/from/alice", "plain")
    assert alice.send("$private/to/bob/5", "robot")[0] == 0
    assert alice.subscribe("$private/from/robot") == [1]
    assert alice.send("$private/to/bob/6", "robot")[0] == 0
    assert alice.until("$private/from/robot") == "at your service"


def what_is_redirected_is_judged_there():
    alice, bob = User("game/alice"), User("game/bob")
    assert bob.subscribe("$private/from/+") == [1]
    assert alice.subscribe("$private/from/+") == [1]
    assert alice.subscribe("$reply/+") == [1]
    assert alice.send("t/whisper", "no")[0] == response(0x83)
    assert alice.send("t/whisper", "hide")[0] == 0
    assert json.loads(alice.until("$reply/9"))["status"] == "delivered"
    assert alice.send("t/whisper", "mute")[0] == 0
    bob.expect("$private/from/alice", "mute")
    assert alice.send("t/whisper", "carry")[0] == 0
    assert alice.until("$private/from/alice") == "for bob"
    assert json.loads(alice.until("$reply/9"))["to"] == "alice", "no reply for mute"
    assert alice.send("t/whisper", "plain")[0] == 0
    bob.expect("$private/from/alice", "plain")
    assert json.loads(alice.until("$reply/9"))["to"] == "bob"
    # And in a room.
    assert alice.send("t/aloud", "plain")[0] == response(0x87), "she is not in it"
    assert alice.subscribe("$room/tea/say/+") == [1]
    assert alice.send("t/aloud", "damn")[0] == response(0x83)
    assert alice.send("t/aloud", "change me")[0] == 0
    assert alice.until("$room/tea/say/alice") == "changed"


def joins_and_subscriptions_are_judged():
    alice = User("game/alice")
    assert alice.subscribe("$reply/+") == [1]
    assert alice.subscribe("$room/vip/#") == [0x83 if V5 else 0x80]
    if not V5:
        told = json.loads(alice.until("$reply/join"))
        assert (told["error"], told["room"], told["text"]) == ("refused", "vip", "members only")
    assert alice.subscribe("secret/#") == [0x87 if V5 else 0x80]
    # What is shared is no way around it.
    assert alice.subscribe("$share/g/secret/#") == [0x87 if V5 else 0x80]
    alice.client.subscribe([("a", 1), ("secret/x", 1), ("$room/tea/#", 1)])
    codes = [code.value for code in alice.granted.get(timeout=PATIENCE)]
    assert codes == [1, 0x87 if V5 else 0x80, 1], codes
    # A room is come into once, or not at all.
    assert alice.subscribe("asked/join") == [1]
    twice = [("$room/one/event", 1), ("$room/one/say/+", 1), ("$room/two/event", 1)]
    alice.client.subscribe(twice)
    codes = [code.value for code in alice.granted.get(timeout=PATIENCE)]
    assert codes == [1, 1, 1], codes
    asked = [alice.until("asked/join") for _ in range(2)]
    assert asked == ["$room/one/event", "$room/two/event"], asked
    vip = [("$room/vip/event", 1), ("b", 1), ("$room/vip/say/+", 1)]
    alice.client.subscribe(vip)
    codes = [code.value for code in alice.granted.get(timeout=PATIENCE)]
    assert codes == [0x83 if V5 else 0x80, 1, 0x83 if V5 else 0x80], codes


def coming_back_too_late_is_judged():
    """Within the grace period a place is kept, after it whoever comes back joins."""
    alice = User("game/alice")
    assert alice.subscribe("$room/gate/event") == [1]
    assert alice.subscribe("$room/yard/event") == [1]
    bob = User("game/bob", lasting=True)
    assert bob.subscribe("$reply/+") == [1]
    for room in ("gate", "yard"):
        assert bob.subscribe(f"$room/{room}/say/+") == [1]
    assert alice.send("$room/gate/say", "shut")[0] == 0
    assert bob.until("$room/gate/say/alice") == "shut"
    bob.lose()
    # No place is kept in the one, and in the other it is.
    while json.loads(alice.until("$room/gate/event")).get("reason") != "lost":
        pass
    bob = User("game/bob", lasting=True)
    told = json.loads(bob.until("$reply/join"))
    assert (told["code"], told["error"], told["room"]) == (0x83, "refused", "gate"), told
    assert told["text"] == "the gate is shut", told
    assert alice.send("$room/gate/say", "is he there?")[0] == 0
    assert alice.send("$room/yard/say", "he is here")[0] == 0
    bob.expect("$room/yard/say/alice", "he is here")


def coming_back_by_another_session_is_no_join():
    alice, bob = User("game/alice"), User("game/bob")
    assert alice.subscribe("$room/hall/event") == [1]
    assert bob.subscribe("$room/hall/#") == [1]
    assert alice.send("$room/hall/say", "shut")[0] == 0
    assert bob.until("$room/hall/say/alice") == "shut"
    bob.lose()
    while json.loads(alice.until("$room/hall/event")).get("event") != "away":
        pass
    bob = User("game/bob")
    assert bob.subscribe("$room/hall/#") == [1]
    assert json.loads(alice.until("$room/hall/event")) == {"event": "back", "user": "bob"}
    # Who went on purpose joins.
    bob.client.unsubscribe("$room/hall/#")
    assert bob.subscribe("$room/hall/#") == [0x83 if V5 else 0x80]


def logins_are_judged():
    known = User("game/visitor", password="magic")
    assert known.subscribe("a") == [1]
    User("game/visitor", password="wrong", client_id="w", wants=0x86)
    for name, code, reason in [("evil", 0x87, "no evil here"), ("busy", 0x97, "come back later")]:
        denied = User(f"game/{name}", password="magic", client_id=name, wants=code)
        assert denied.properties.ReasonString == reason, denied.properties
    User("game/alice", client_id="a")


def long_reasons_are_left_out():
    """A CONNACK with the reason would be larger than the client takes."""
    small = Properties(PacketTypes.CONNECT)
    small.MaximumPacketSize = 12
    denied = User("game/evil", client_id="small", connect_properties=small, wants=0x87)
    assert not hasattr(denied.properties, "ReasonString")


def answers_to_calls_are_judged():
    """A Response Topic is published to for its caller, so it is judged like a publish."""
    alice, bob = User("game/alice"), User("game/bob")
    assert bob.subscribe("t/#") == [1]
    for topic in ["t/free", "t/secret", "t/answers", "t/free"]:
        call = Properties(PacketTypes.PUBLISH)
        call.ResponseTopic, call.CorrelationData = topic, b"7"
        call.UserProperty = ("max", "3")
        assert alice.send("$call/sizecheck", "four", properties=call)[0] == 0
    assert json.loads(bob.until("t/free"))["status"] == "done"
    answer = bob.expect("t/answers", "judged")
    assert answer.properties.CorrelationData == b"7"
    assert bob.messages.get(timeout=PATIENCE).topic == "t/free"


def calls_are_answered_by_adaptors():
    """Of the zone and of a room, whose members and administrators may call it."""
    alice, bob = User("game/alice"), User("game/bob")
    assert alice.subscribe("$reply/+") == [1]

    def call(topic, text):
        """The code of the acknowledgement, and the answer."""
        call.number += 1
        code, _ = alice.send(f"{topic}/{call.number}", text)
        return code, json.loads(alice.until(f"$reply/{call.number}"))

    call.number = 0
    words = json.dumps({"a": 1, "b": 2})
    code, answer = call("$call/sum", words)
    assert (code, answer["status"], answer["verdict"]) == (0, "done", "accept"), answer
    assert json.loads(answer["result"]) == {"sum": 3, "by": "alice"}, answer
    # A room's code is for those who are in it.
    code, answer = call("$room/tea/call/sum", words)
    assert (code, answer["code"]) == (response(0x87), 0x87), answer
    assert bob.subscribe("$room/tea/#") == [1] and alice.subscribe("$room/tea/say/+") == [1]
    code, answer = call("$room/tea/call/sum", words)
    assert code == 0 and json.loads(answer["result"])["room"] == "tea", answer
    assert call("$room/tea/call/members", "")[1]["result"] == "2"
    # A member without a connection, which takes a place and keeps no room.
    assert call("$room/tea/call/seat", "")[1]["result"] == "done"
    assert json.loads(bob.until("$room/tea/member/robot")) == {"state": "here"}
    assert call("$room/tea/call/members", "")[1]["result"] == "3"
    forged = call("$call/room.seat", '{"room":"tea","user":"other"}')[1]
    assert forged["error"] == "not-allowed", forged
    refused = {"status": "refused", "code": 0x87, "text": "not that"}
    for topic in ("$call/no", "$room/tea/call/no"):
        assert call(topic, "") == (response(0x87), refused)
    # A script that fails denies.
    assert call("$call/table", "")[0] == response(0x83)
    # What no adaptor answers: a room has nothing else, a zone has procedures.
    code, answer = call("$room/tea/call/nothing", "")
    assert (code, answer["status"]) == (response(0x10), "not-found"), answer
    assert call("$call/sizecheck", "swap")[1]["verdict"] == "accept"
    assert call("$call/room.info", '{"room":"tea"}')[1]["result"]["room"]["members"] == 3
    if V5:
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic, properties.CorrelationData = "$reply/x", b"7"
        properties.UserProperty = ("text", "hello")
        assert alice.send("$room/tea/call/echo", "", properties=properties)[0] == 0
        answer = json.loads(alice.until("$reply/x"))
        assert answer == {"status": "done", "verdict": "accept", "result": "hello"}, answer
    # A zone without adaptors.
    here = User("alice")
    assert here.subscribe("$reply/+") == [1]
    assert here.send("$room/tea/call/sum/1", words)[0] == response(0x10)
    assert json.loads(here.until("$reply/1"))["status"] == "not-found"


def broadcasts_are_judged():
    """Each recipient is judged as if the caller had published to it."""
    alice, bob = User("game/alice"), User("game/bob")
    assert bob.subscribe("t/#") == [1]
    assert bob.subscribe("$private/from/+") == [1]
    assert alice.subscribe("$reply/+") == [1]

    def broadcast(text, *recipients):
        properties = Properties(PacketTypes.PUBLISH)
        for recipient in recipients:
            properties.UserProperty = recipient
        assert alice.send("$call/broadcast/1", text, properties=properties)[0] == 0
        said = json.loads(alice.until("$reply/1"))
        return said["text"], json.loads(said["result"])["missed"]

    topics = [("topic", "t/free"), ("topic", "t/secret"), ("topic", "t/answers")]
    said, missed = broadcast("x", *topics)
    assert said == "sent to 2 of 3, 1 refused", said
    assert missed == [{"topic": "t/secret", "status": "refused", "text": "not there"}], missed
    bob.expect("t/free", "x")
    bob.expect("t/answers", "judged")
    said, missed = broadcast("no", ("to", "bob"), ("topic", "t/free"))
    assert missed == [{"to": "bob", "status": "refused", "text": "not that"}], missed
    bob.expect("t/free", "no")
    # It goes elsewhere, where it is judged as well; what is said in rooms is no broadcast.
    assert broadcast("y", ("topic", "t/whisper"))[0] == "sent to 1 of 1"
    bob.expect("$private/from/alice", "y")
    assert broadcast("no", ("topic", "t/whisper"))[1][0]["text"] == "not that"
    assert broadcast("y", ("topic", "t/aloud"))[1][0]["status"] in ("invalid", "refused")
    assert broadcast("hide", ("to", "bob"))[0] == "sent to 1 of 1"
    assert broadcast("end", ("to", "bob"))[0] == "sent to 1 of 1"
    bob.expect("$private/from/alice", "end")


def what_is_too_much_is_denied():
    """Whatever the script tries, its zone goes on, and so do those who would have got it."""
    alice, bob = User("game/alice"), User("game/bob")
    assert bob.subscribe("$presence/bob") == [1]
    assert json.loads(bob.until("$presence/bob"))
    assert bob.subscribe("t/#") == [1]
    for what in ["big", "forge", "mistype", "flood", "talk"]:
        code, text = alice.send("t/judged", what)
        assert code == response(0x83), (what, code)
        assert "failed" in text or not V5, (what, text)
    assert alice.send("t/judged", "again")[0] == 0
    bob.expect("t/judged", "again")
    late = User("game/alice", client_id="late")
    assert late.subscribe("$presence/bob") == [1]
    assert json.loads(late.until("$presence/bob")), "nobody forged it away"


def a_stuck_hook_is_stopped():
    alice, bob = User("game/alice"), User("game/bob")
    assert bob.subscribe("t/#") == [1]
    code, text = alice.send("t/judged", "loop")
    assert code == response(0x83), code
    assert "failed" in text or not V5, text
    assert alice.send("t/judged", "again")[0] == 0
    bob.expect("t/judged", "again")


def who_goes_at_once_is_heard():
    """What was sent before DISCONNECT is judged and delivered after it."""
    bob = User("game/bob")
    assert bob.subscribe("t/#") == [1]
    alice = User("game/alice")
    alice.client.publish("t/judged", "last words", 0)
    alice.client.disconnect()
    bob.expect("t/judged", "last words")


def adaptors_do_things_themselves():
    alice, bob = User("game/alice"), User("game/bob")
    assert bob.subscribe("news/#") == [1]
    assert bob.subscribe("$room/tea/#") == [1]
    assert alice.subscribe("$room/tea/event") == [1]
    assert alice.send("$room/tea/say", "count")[0] == 0
    assert json.loads(bob.until("$room/tea/prop/count"))["value"] == 1
    assert bob.until("$room/tea/say/alice") == "members: 2"
    assert alice.send("$room/tea/say", "call")[0] == 0
    assert bob.until("$room/tea/say/alice") == "done reject"
    alice.client.unsubscribe("$room/tea/event")
    assert bob.until("news/left") == "alice"


def adaptors_are_told():
    alice, bob = User("game/alice"), User("game/bob")
    assert bob.subscribe("told/#") == [1]
    assert bob.until("told/timer") == "game"
    assert alice.subscribe("$room/den/#") == [1]
    while bob.until("told/created") != "den":
        pass
    alice.client.unsubscribe("$room/den/#")
    assert bob.until("told/closed") == "den"
    alice.client.disconnect()
    assert bob.until("told/disconnect").startswith("alice ")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
