"""What paho-mqtt sees of the server: one function per behaviour.

    paho_cases.py CASE VERSION HOST PORT      VERSION: 3 (3.1), 4 (3.1.1) or 5

A case ends with an exception when the server does something else. No case sleeps: it waits for a
message or an acknowledgement, and shows that nothing else came by a last message behind it.
"""

import queue
import socket
import sys

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

PATIENCE = 50
VERSION = int(sys.argv[2])
HOST, PORT = sys.argv[3], int(sys.argv[4])
V5 = VERSION == 5


def properties(kind, **values):
    """A property set of that packet type, or nothing where the version has none."""
    if not V5:
        return None
    made = Properties(kind)
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Peer:
    """A client whose callbacks end up in queues."""

    def __init__(self, client_id, clean=True, will=None, connect_properties=None, **options):
        arguments = {"client_id": client_id, "protocol": VERSION, "reconnect_on_failure": False}
        if not V5:
            arguments["clean_session"] = clean
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, **arguments)
        self.connected, self.gone = queue.Queue(), queue.Queue()
        self.messages, self.done = queue.Queue(), queue.Queue()
        self.client.on_connect = lambda c, u, flags, code, p: self.connected.put((flags, code, p))
        self.client.on_disconnect = lambda c, u, flags, code, p: self.gone.put(code)
        self.client.on_message = lambda c, u, message: self.messages.put(message)
        self.client.on_subscribe = lambda c, u, mid, codes, p: self.done.put(codes)
        self.client.on_unsubscribe = lambda c, u, mid, codes, p: self.done.put(codes)
        if will:
            self.client.will_set(**will)
        if V5:
            options["clean_start"] = clean
            if connect_properties is None and not clean:
                connect_properties = properties(PacketTypes.CONNECT, SessionExpiryInterval=600)
            options["properties"] = connect_properties
        self.client.connect(HOST, PORT, **options)
        self.client.loop_start()
        self.flags, self.code, self.properties = self.connected.get(timeout=PATIENCE)
        assert self.code == 0, f"the login of {client_id} was refused: {self.code}"

    def subscribe(self, topic, qos=0, **options):
        self.client.subscribe(topic, qos, **options)
        codes = self.done.get(timeout=PATIENCE)
        return [code.value for code in codes]

    def unsubscribe(self, topic):
        self.client.unsubscribe(topic)
        return self.done.get(timeout=PATIENCE)

    def publish(self, topic, payload=b"", qos=0, retain=False, **options):
        info = self.client.publish(topic, payload, qos, retain, **options)
        info.wait_for_publish(PATIENCE)
        assert info.is_published(), f"{topic} was not acknowledged"
        return info

    def next(self):
        return self.messages.get(timeout=PATIENCE)

    def expect(self, topic, payload, **fields):
        message = self.next()
        assert (message.topic, message.payload) == (topic, payload), describe(message)
        for name, value in fields.items():
            assert getattr(message, name) == value, f"{name}: {describe(message)}"
        return message

    def close(self):
        self.client.disconnect()
        self.gone.get(timeout=PATIENCE)
        self.client.loop_stop()

    def vanish(self):
        """Loses the connection as a pulled cable does."""
        sock = self.client.socket()
        self.client.loop_stop()
        sock.shutdown(socket.SHUT_RDWR)
        sock.close()


def describe(message):
    payload = message.payload[:60]
    return f"{message.topic} {payload!r} qos {message.qos} retain {message.retain}"


# --- every version


def delivers_each_qos():
    """A message arrives with the lower of its own QoS and the subscription's."""
    sender = Peer("sender")
    for granted in range(3):
        receiver = Peer(f"receiver{granted}")
        assert receiver.subscribe("qos/#", granted) == [granted]
        for sent in range(3):
            payload = f"{sent} to {granted}".encode()
            sender.publish(f"qos/{sent}", payload, sent)
            receiver.expect(f"qos/{sent}", payload, qos=min(sent, granted), retain=False)
        receiver.close()
    sender.close()


def keeps_the_order_of_many_messages():
    sender, receiver = Peer("sender"), Peer("receiver")
    receiver.subscribe("many", 2)
    for qos in range(3):
        last = None
        for number in range(500):
            last = sender.client.publish("many", f"{qos} {number}", qos)
        last.wait_for_publish(PATIENCE)
        for number in range(500):
            receiver.expect("many", f"{qos} {number}".encode())


def delivers_large_payloads():
    sender, receiver = Peer("sender"), Peer("receiver")
    receiver.subscribe("large", 2)
    payload = bytes(index * 7 % 251 for index in range(1_500_000))
    for qos in range(3):
        sender.publish("large", payload, qos)
        assert receiver.next().payload == payload
    sender.publish("large", b"", 1)
    receiver.expect("large", b"")


def hands_out_retained_messages():
    sender, live = Peer("sender"), Peer("live")
    live.subscribe("keep/#", 1)
    for name in ("a", "b"):
        sender.publish(f"keep/{name}", name, 1, retain=True)
        live.expect(f"keep/{name}", name.encode(), retain=False)
    sender.publish("keep/a", "newer", 1, retain=True)
    live.expect("keep/a", b"newer", retain=False)
    late = Peer("late")
    late.subscribe("keep/#", 1)
    both = (late.next(), late.next())
    got = {message.topic: (message.payload, message.retain) for message in both}
    assert got == {"keep/a": (b"newer", True), "keep/b": (b"b", True)}, got
    sender.publish("keep/a", b"", 1, retain=True)
    late.expect("keep/a", b"", retain=False)
    later = Peer("later")
    later.subscribe("keep/a")
    later.subscribe("keep/b")
    later.expect("keep/b", b"b", retain=True)


def publishes_the_will_of_a_lost_client():
    watcher = Peer("watcher")
    watcher.subscribe("will/#", 1)
    will = {"topic": "will/lost", "payload": "gone", "qos": 1, "retain": True}
    Peer("lost", will=will).vanish()
    watcher.expect("will/lost", b"gone", qos=1, retain=False)
    late = Peer("late")
    late.subscribe("will/lost")
    late.expect("will/lost", b"gone", retain=True)


def discards_the_will_of_a_client_that_says_goodbye():
    watcher = Peer("watcher")
    watcher.subscribe("will/#", 1)
    Peer("polite", will={"topic": "will/polite", "payload": "gone"}).close()
    watcher.publish("will/fence", "fence", 1)
    watcher.expect("will/fence", b"fence")


def keeps_a_session_with_its_messages():
    first = Peer("sleeper", clean=False)
    assert not first.flags.session_present
    first.subscribe("session/#", 2)
    first.close()
    sender = Peer("sender")
    for number in range(30):
        sender.publish(f"session/{number % 3}", str(number), number % 2 + 1)
    again = Peer("sleeper", clean=False)
    if VERSION > 3:
        assert again.flags.session_present
    # QoS 2 takes one more round trip, so the order holds within each QoS.
    got = [again.next() for _ in range(30)]
    for qos in (1, 2):
        order = [int(message.payload) for message in got if message.qos == qos]
        assert order == list(range(qos - 1, 30, 2)), order
    again.close()
    fresh = Peer("sleeper", clean=True)
    assert not fresh.flags.session_present
    sender.publish("session/0", "for nobody", 1)
    fresh.subscribe("fence")
    sender.publish("fence", "fence")
    fresh.expect("fence", b"fence")


def hands_a_session_to_the_newer_connection():
    first = Peer("twin", clean=False)
    first.subscribe("twin", 1)
    second = Peer("twin", clean=False)
    code = first.gone.get(timeout=PATIENCE)
    assert not V5 or code == "Session taken over", code
    if VERSION > 3:
        assert second.flags.session_present
    Peer("sender").publish("twin", "hello", 1)
    second.expect("twin", b"hello", qos=1)


def matches_wildcards():
    table = [
        ("a/b/c", ["a/b/c"], ["a/b", "a/b/c/d", "a/b/C"]),
        ("a/+/c", ["a/b/c", "a//c"], ["a/c", "a/b/b/c"]),
        ("a/#", ["a", "a/", "a/b/c"], ["b/a", "ab"]),
        ("+/b", ["a/b", "/b"], ["b", "a/b/c"]),
        ("/+", ["/x", "/"], ["x", "x/y"]),
        ("+/+/#", ["a/b", "a/b/c", "/"], ["a"]),
    ]
    sender = Peer("sender")
    for number, (wanted, hits, misses) in enumerate(table):
        receiver = Peer(f"receiver{number}")
        receiver.subscribe(wanted, 1)
        receiver.subscribe("fence", 1)
        for topic in misses + hits:
            sender.publish(topic, "x", 1)
        sender.publish("fence", "fence", 1)
        for topic in hits + ["fence"]:
            message = receiver.next()
            assert message.topic == topic, f"{wanted}: {describe(message)} instead of {topic}"
        receiver.close()


def stops_delivery_on_unsubscribe():
    peer = Peer("peer")
    peer.subscribe([("one", 1), ("two", 1)])
    peer.publish("one", "1", 1)
    peer.expect("one", b"1")
    peer.unsubscribe("one")
    peer.publish("one", "2", 1)
    peer.publish("two", "3", 1)
    peer.expect("two", b"3")


def hides_system_topics_from_wildcards():
    peer = Peer("peer")
    peer.subscribe([("#", 1), ("+/broker/#", 1)])
    peer.publish("fence", "fence", 1)
    peer.expect("fence", b"fence")
    peer.subscribe("$SYS/broker/version")
    assert peer.next().topic == "$SYS/broker/version"


def balances_shared_subscriptions():
    members = [Peer(f"member{number}") for number in range(3)]
    outsider, sender = Peer("outsider"), Peer("sender")
    outsider.subscribe("work/#", 1)
    for member in members:
        member.subscribe("$share/crew/work/#", 1)
    total = 300
    for number in range(total):
        sender.client.publish("work/item", str(number), 1)
    for number in range(total):
        outsider.expect("work/item", str(number).encode())
    # Every member's fence comes after its share.
    shares = []
    for number, member in enumerate(members):
        member.subscribe(f"fence/{number}", 1)
        sender.publish(f"fence/{number}", "fence", 1)
        share = []
        while not (message := member.next()).topic.startswith("fence"):
            share.append(int(message.payload))
        assert share == sorted(share), "each member gets its share in order"
        shares.append(share)
    assert sorted(sum(shares, [])) == list(range(total)), "each message goes to one member"
    assert all(len(share) >= total // 10 for share in shares), [len(share) for share in shares]


def sends_again_what_a_vanished_client_did_not_acknowledge():
    """QoS 1 messages that were sent but not acknowledged come again, marked as duplicates."""
    first = Peer("forgetful", clean=False)
    first.client.manual_ack_set(True)
    first.subscribe("again", 1)
    sender = Peer("sender")
    for number in range(5):
        sender.publish("again", str(number), 1)
    for number in range(5):
        first.expect("again", str(number).encode())
    first.vanish()
    second = Peer("forgetful", clean=False)
    for number in range(5):
        second.expect("again", str(number).encode(), dup=True)


# --- MQTT 5 only


def carries_properties_in_order():
    sender, receiver = Peer("sender"), Peer("receiver")
    receiver.subscribe("props", 1)
    sent = properties(
        PacketTypes.PUBLISH,
        PayloadFormatIndicator=1,
        ContentType="text/plain",
        ResponseTopic="answers/here",
        CorrelationData=b"\x00\x01\x02",
        MessageExpiryInterval=100,
        UserProperty=[("b", "2"), ("a", "1"), ("b", "2"), ("", "")],
    )
    sender.publish("props", "hi", 1, properties=sent)
    got = receiver.next().properties
    assert got.PayloadFormatIndicator == 1 and got.ContentType == "text/plain"
    assert got.ResponseTopic == "answers/here" and got.CorrelationData == b"\x00\x01\x02"
    assert got.UserProperty == [("b", "2"), ("a", "1"), ("b", "2"), ("", "")], got.UserProperty
    # What it waited has been subtracted: nearly nothing, but on a busy machine not nothing.
    assert 40 <= got.MessageExpiryInterval <= 100


def reports_subscription_identifiers():
    peer = Peer("peer")
    for number, wanted in ((7, "ids/+"), (268_435_455, "ids/#")):
        peer.subscribe(
            wanted, properties=properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=number)
        )
    peer.publish("ids/x", "hi", 1)
    got = []
    while len(got) < 2:
        got += peer.next().properties.SubscriptionIdentifier
    assert sorted(got) == [7, 268_435_455], got


def honours_subscription_options():
    sender, plain, kept = Peer("sender"), Peer("plain"), Peer("kept")
    sender.client.subscribe("opt/#", options=SubscribeOptions(qos=1, noLocal=True))
    sender.done.get(timeout=PATIENCE)
    plain.client.subscribe("opt/#", options=SubscribeOptions(qos=1))
    plain.done.get(timeout=PATIENCE)
    kept.client.subscribe("opt/#", options=SubscribeOptions(qos=1, retainAsPublished=True))
    kept.done.get(timeout=PATIENCE)
    sender.publish("opt/own", "1", 1, retain=True)
    plain.expect("opt/own", b"1", retain=False)
    kept.expect("opt/own", b"1", retain=True)
    plain.publish("opt/foreign", "2", 1)
    sender.expect("opt/foreign", b"2")


def honours_retain_handling():
    sender = Peer("sender")
    sender.publish("hold", "kept", 1, retain=True)
    peer = Peer("peer")

    def subscribe(handling):
        peer.client.subscribe("hold", options=SubscribeOptions(qos=1, retainHandling=handling))
        peer.done.get(timeout=PATIENCE)

    subscribe(SubscribeOptions.RETAIN_DO_NOT_SEND)
    sender.publish("hold", "fence", 1)
    peer.expect("hold", b"fence", retain=False)
    subscribe(SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
    sender.publish("hold", "fence", 1)
    peer.expect("hold", b"fence", retain=False)
    subscribe(SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE)
    peer.expect("hold", b"kept", retain=True)
    peer.unsubscribe("hold")
    subscribe(SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
    peer.expect("hold", b"kept", retain=True)


def assigns_client_ids():
    first, second = Peer(""), Peer("")
    names = {first.properties.AssignedClientIdentifier, second.properties.AssignedClientIdentifier}
    assert len(names) == 2 and all(names), names


def accepts_topic_aliases():
    wanted = properties(PacketTypes.CONNECT)
    sender, receiver = Peer("sender", connect_properties=wanted), Peer("receiver")
    assert sender.properties.TopicAliasMaximum >= 1
    receiver.subscribe("alias/#", 1)
    alias = properties(PacketTypes.PUBLISH, TopicAlias=1)
    sender.publish("alias/x", "1", 1, properties=alias)
    receiver.expect("alias/x", b"1")
    sender.client.publish("alias/y", "2", 1, properties=alias)
    receiver.expect("alias/y", b"2")


def lets_messages_expire():
    """A message whose time is over when its reader comes back is not delivered."""
    reader = Peer("reader", clean=False)
    reader.subscribe("news", 1)
    reader.close()
    sender = Peer("sender")
    sender.publish(
        "news", "old", 1, properties=properties(PacketTypes.PUBLISH, MessageExpiryInterval=1)
    )
    # The clock is a will that is due 2 s after its client vanished.
    watcher = Peer("watcher")
    watcher.subscribe("clock", 1)
    Peer(
        "clock",
        will={
            "topic": "clock",
            "payload": "2 s",
            "qos": 1,
            "properties": properties(PacketTypes.WILLMESSAGE, WillDelayInterval=2),
        },
        connect_properties=properties(PacketTypes.CONNECT, SessionExpiryInterval=60),
    ).vanish()
    watcher.expect("clock", b"2 s")
    sender.publish("news", "new", 1)
    again = Peer("reader", clean=False)
    again.expect("news", b"new")


def ends_a_will_delay_with_the_session():
    watcher = Peer("watcher")
    watcher.subscribe("delayed", 1)
    Peer(
        "short",
        will={
            "topic": "delayed",
            "payload": "session ended",
            "properties": properties(PacketTypes.WILLMESSAGE, WillDelayInterval=3600),
        },
        connect_properties=properties(PacketTypes.CONNECT, SessionExpiryInterval=1),
    ).vanish()
    watcher.expect("delayed", b"session ended")


def cancels_a_delayed_will_on_return():
    watcher = Peer("watcher")
    watcher.subscribe("cancelled/#", 1)
    first = Peer(
        "back",
        clean=False,
        will={
            "topic": "cancelled/will",
            "payload": "gone",
            # Long enough to come back in, however busy the machine is.
            "properties": properties(PacketTypes.WILLMESSAGE, WillDelayInterval=8),
        },
        connect_properties=properties(PacketTypes.CONNECT, SessionExpiryInterval=600),
    )
    first.vanish()
    Peer("back", clean=False)
    # A second client's will with a longer delay tells that the time is over.
    Peer(
        "clock",
        will={
            "topic": "cancelled/clock",
            "payload": "later",
            "properties": properties(PacketTypes.WILLMESSAGE, WillDelayInterval=9),
        },
        connect_properties=properties(PacketTypes.CONNECT, SessionExpiryInterval=60),
    ).vanish()
    watcher.expect("cancelled/clock", b"later")


def publishes_the_will_on_request():
    """[MQTT-3.14.4-3] DISCONNECT with 0x04 keeps the will."""
    watcher = Peer("watcher")
    watcher.subscribe("asked", 1)
    peer = Peer("peer", will={"topic": "asked", "payload": "please"})
    code = mqtt.ReasonCode(PacketTypes.DISCONNECT, identifier=4)
    peer.client.disconnect(reasoncode=code)
    watcher.expect("asked", b"please")


def respects_the_clients_receive_maximum():
    """No more unacknowledged messages than the client allows."""
    wanted = properties(PacketTypes.CONNECT, ReceiveMaximum=2)
    peer = Peer("narrow", connect_properties=wanted)
    peer.client.manual_ack_set(True)
    peer.subscribe("narrow", 1)
    sender = Peer("sender")
    for number in range(6):
        sender.publish("narrow", str(number), 1)
    pending = [peer.expect("narrow", b"0"), peer.expect("narrow", b"1")]
    # A message with QoS 0 needs no place in the window, so it passes the ones that wait.
    peer.subscribe("fence", 0)
    sender.publish("fence", "fence", 0)
    peer.expect("fence", b"fence")
    for number in range(2, 6):
        oldest = pending.pop(0)
        peer.client.ack(oldest.mid, oldest.qos)
        pending.append(peer.expect("narrow", str(number).encode()))


def respects_the_clients_maximum_packet_size():
    wanted = properties(PacketTypes.CONNECT, MaximumPacketSize=200)
    peer, sender = Peer("small", connect_properties=wanted), Peer("sender")
    peer.subscribe("size", 1)
    sender.publish("size", b"x" * 500, 1)
    sender.publish("size", b"fits", 1)
    peer.expect("size", b"fits")


def refuses_a_packet_beyond_its_own_maximum():
    peer = Peer("bulky")
    limit = peer.properties.MaximumPacketSize
    peer.client.publish("bulky", b"x" * (limit + 1), 0)
    assert peer.gone.get(timeout=PATIENCE) == "Packet too large"


def answers_unsubscribe_with_codes():
    peer = Peer("peer")
    peer.subscribe("there")
    codes = peer.unsubscribe(["there", "not-there"])
    assert [code.value for code in codes] == [0x00, 0x11], codes


def ends_a_session_when_asked():
    """A session expiry of 0 in DISCONNECT ends the session."""
    peer = Peer("ending", clean=False)
    peer.subscribe("x", 1)
    peer.client.disconnect(
        properties=properties(PacketTypes.DISCONNECT, SessionExpiryInterval=0)
    )
    peer.gone.get(timeout=PATIENCE)
    assert not Peer("ending", clean=False).flags.session_present


def refuses_unknown_authentication():
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2, "auth", protocol=5, reconnect_on_failure=False
    )
    answers = queue.Queue()
    client.on_connect = lambda c, u, flags, code, p: answers.put(code)
    wanted = properties(PacketTypes.CONNECT, AuthenticationMethod="UNKNOWN")
    client.connect(HOST, PORT, properties=wanted)
    client.loop_start()
    assert answers.get(timeout=PATIENCE) == "Bad authentication method"


if __name__ == "__main__":
    globals()[sys.argv[1]]()
