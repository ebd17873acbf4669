import sys
import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

# Prints the image of the market, then updates: desk.py USER HOW_MANY_UPDATES
user, updates = sys.argv[1], int(sys.argv[2])
book, last, live = {}, {}, False
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
client.username_pw_set(user, open("password").readline().strip())

def on_connect(client, userdata, flags, reason, properties):
    if reason.is_failure:
        sys.exit(str(reason))
    wanted = Properties(PacketTypes.SUBSCRIBE)
    wanted.UserProperty = [("snapshot-end", ""), ("max-rate", "2")]
    client.subscribe("tick/#", properties=wanted)

def on_message(client, userdata, message):
    global live, updates
    about = dict(getattr(message.properties, "UserProperty", []))
    if "snapshot-end" in about:
        live = True
        print("image complete:", ", ".join(sorted(book)), flush=True)
    else:
        check(message.topic, about)
        book[message.topic] = message.payload.decode()
        if live:
            updates -= 1
            print("update", message.topic, book[message.topic],
                  "conflated", about.get("conflated", 0), flush=True)
    if live and updates <= 0:
        client.disconnect()

def check(topic, about):             # were messages lost since the last one?
    epoch, number, conflated = about["epoch"], int(about["seq"]), int(about.get("conflated", 0))
    if last.get(topic, (0, 0))[0] == epoch:
        lost = number - last[topic][1] - conflated - 1
        if lost > 0:
            print("GAP", topic, lost, "messages lost")
    last[topic] = epoch, number

client.on_connect, client.on_message = on_connect, on_message
client.connect("localhost", 1883)
client.loop_forever()
