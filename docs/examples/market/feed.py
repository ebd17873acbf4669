import itertools
import queue
import random
import sys
import time
import paho.mqtt.client as mqtt

# Publishes random prices of three symbols, some hundreds a second: feed.py [HOW_MANY]
prices = {"ACME": 17.0, "BOLT": 42.0, "CORK": 8.0}
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
client.username_pw_set("feed", open("password").readline().strip())
answers = queue.SimpleQueue()
client.on_connect = lambda client, userdata, flags, reason, properties: answers.put(reason)
client.connect("localhost", 1883)
client.loop_start()
reason = answers.get()
if reason.is_failure:
    sys.exit(str(reason))

numbers = range(int(sys.argv[1])) if len(sys.argv) > 1 else itertools.count()
for number in numbers:
    symbol = random.choice(list(prices))
    prices[symbol] *= random.uniform(0.999, 1.001)
    sent = client.publish(f"tick/{symbol}", f"{prices[symbol]:.2f}")
    time.sleep(0.001)

sent.wait_for_publish()
client.disconnect()
client.loop_stop()
