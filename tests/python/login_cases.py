"""What paho-mqtt sees of logins: one function per behaviour.

    login_cases.py CASE VERSION HOST PORT      VERSION: 4 (3.1.1) or 5

The server knows ann, whose password is "secret", whose token is in LOGIN_TOKEN, and who may publish
and subscribe below yes/.
"""

import os
import queue
import sys

import paho.mqtt.client as mqtt

PATIENCE = 50
VERSION = int(sys.argv[2])
HOST, PORT = sys.argv[3], int(sys.argv[4])
V5 = VERSION == 5


def login(name, password):
    """The client, and the answer to its CONNECT."""
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2, "c", protocol=VERSION, reconnect_on_failure=False
    )
    client.answers = queue.Queue()
    client.on_connect = lambda c, u, flags, code, p: c.answers.put(code)
    client.on_subscribe = lambda c, u, mid, codes, p: c.answers.put(codes[0])
    client.on_publish = lambda c, u, mid, code, p: c.answers.put(code)
    client.username_pw_set(name, password)
    client.connect(HOST, PORT)
    client.loop_start()
    return client, client.answers.get(timeout=PATIENCE)


def a_password_and_a_token_let_in():
    for password in ["secret", os.environ["LOGIN_TOKEN"]]:
        client, code = login("ann", password)
        assert code == 0, code
        client.disconnect()


def wrong_names_and_passwords_look_the_same():
    token = os.environ["LOGIN_TOKEN"]
    attempts = [("ann", "wrong"), ("nobody", "secret"), ("ann", token[:-1]), ("nobody", token)]
    codes = {str(login(name, password)[1]) for name, password in attempts}
    assert codes == {"Bad user name or password"}, codes


def rights_hold():
    client, code = login("ann", "secret")
    assert code == 0, code
    for filter, is_permitted in [("yes/#", True), ("no/#", False), ("#", True)]:
        client.subscribe(filter, 1)
        answer = client.answers.get(timeout=PATIENCE)
        assert answer.is_failure != is_permitted, (filter, answer)
    for topic, is_permitted in [("yes/a", True), ("no/a", False)]:
        client.publish(topic, "x", 1)
        answer = client.answers.get(timeout=PATIENCE)
        # 3.1.1 has no answer for a publish that is not permitted.
        assert answer.is_failure != (is_permitted or not V5), (topic, answer)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
