"""A logged-in paho client with queues, for the cases of zones.

The script that imports it is called with CASE VERSION HOST PORT. The server has the users alice,
bob and eve of the zone default and other/bob, all with the password "secret".
"""

import queue
import sys

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

PATIENCE = 50
VERSION = int(sys.argv[2])
HOST, PORT = sys.argv[3], int(sys.argv[4])
V5 = VERSION == 5


class User:
    """A client that has logged in, with its queues."""

    def __init__(
        self,
        name,
        client_id=None,
        connect_properties=None,
        login=True,
        password="secret",
        wants=0,
        lasting=False,
        address="",
        says="",
    ):
        """`lasting`: goes on with its session, which outlives the connection. `address`: where it
        comes from. `wants`: the answer; `None` for any. `says`: a part of its reason string."""
        arguments = {"client_id": client_id or name.replace("/", "-"), "protocol": VERSION}
        start = {}
        if lasting and V5:
            start["clean_start"] = False
            connect_properties = connect_properties or Properties(PacketTypes.CONNECT)
            connect_properties.SessionExpiryInterval = 3_600
        elif lasting:
            arguments["clean_session"] = False
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, reconnect_on_failure=False, **arguments
        )
        if login:
            self.client.username_pw_set(name, password)
        self.connected, self.messages = queue.Queue(), queue.Queue()
        self.ended, self.properties = queue.Queue(), None
        self.granted, self.responses = queue.Queue(), queue.Queue()
        self.client.on_connect = lambda c, u, flags, code, p: self.connected.put((code, p))
        self.client.on_disconnect = lambda c, u, flags, code, p: self.ended.put(code)
        self.client.on_message = lambda c, u, message: self.messages.put(message)
        self.client.on_subscribe = lambda c, u, mid, codes, p: self.granted.put(codes)
        self.client.on_publish = lambda c, u, mid, code, p: self.responses.put((code, p))
        start |= {"properties": connect_properties, "bind_address": address}
        self.client.connect(HOST, PORT, **start)
        self.client.loop_start()
        code, self.properties = self.connected.get(timeout=PATIENCE)
        self.code = code.value
        assert wants in (None, self.code), f"the login of {name} was answered: {code}"
        text = getattr(self.properties, "ReasonString", "") if V5 else says
        assert says in text, f"the login of {name} was answered: {code}, {text!r}"

    def lose(self):
        """The connection breaks without a word."""
        self.client.socket().close()
        self.client.loop_stop()

    def subscribe(self, topic, qos=1):
        self.client.subscribe(topic, qos)
        return [code.value for code in self.granted.get(timeout=PATIENCE)]

    def send(self, topic, payload="x", qos=1, properties=None, retain=False):
        """Publishes; gives back the reason code and the reason string."""
        self.client.publish(topic, payload, qos, retain, properties)
        code, properties = self.responses.get(timeout=PATIENCE)
        return code.value, getattr(properties, "ReasonString", "")

    def expect(self, topic, payload):
        message = self.messages.get(timeout=PATIENCE)
        assert (message.topic, message.payload.decode()) == (topic, payload), (
            f"{message.topic} {message.payload!r}"
        )
        assert not message.retain
        return message

    def until(self, topic):
        """The payload of the next message on that topic; others before it are passed over."""
        while True:
            message = self.messages.get(timeout=PATIENCE)
            if message.topic == topic:
                return message.payload.decode()

    def expect_nothing_before(self, payload):
        """Whatever came before would be met first."""
        assert self.subscribe("fence") == [1]
        self.send("fence", payload)
        self.expect("fence", payload)


def response(code):
    """3.1.1 has one answer for everything."""
    return code if V5 else 0
