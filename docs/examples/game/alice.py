# Writes to bob, cuts her own connection when he says "drop", and returns ten seconds later.
import socket
import sys
import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, "alice", protocol=mqtt.MQTTv5)
client.username_pw_set("game/alice", open("password").readline().strip())
client.reconnect_delay_set(10, 10)           # comes back after ten seconds
keep = Properties(PacketTypes.CONNECT)
keep.SessionExpiryInterval = 60              # the server keeps the session for a minute
forget = Properties(PacketTypes.DISCONNECT)
forget.SessionExpiryInterval = 0             # at the end it forgets it at once

def on_connect(client, userdata, flags, reason, properties):
    if reason.is_failure:
        sys.exit(str(reason))
    print("connected, session kept:", flags.session_present, flush=True)
    if not flags.session_present:            # else the session is back in its room by itself
        client.subscribe([("$private/from/+", 1), ("$room/lobby/#", 0)])
        client.publish("$room/lobby/say", "hello", qos=1)

def on_message(client, userdata, message):
    what, text = message.topic.split("/"), message.payload.decode()
    if what[0] == "$private":
        print("private from", what[2], text, flush=True)
        if text == "bye":
            client.disconnect(properties=forget)
        else:
            client.publish("$private/to/" + what[2], "one moment", qos=1)
    elif what[2] == "say" and text == "drop" and not message.retain:
        client.socket().shutdown(socket.SHUT_RDWR)      # as when the network is gone

client.on_connect, client.on_message = on_connect, on_message
client.connect("localhost", 1883, clean_start=False, properties=keep)
client.loop_forever()
