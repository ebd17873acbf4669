"""The shipped adaptors at work, as paho-mqtt sees them: one function per example.

    example_cases.py CASE VERSION HOST PORT      VERSION: 4 (3.1.1) or 5

The server runs `deploy/adaptors/` in the zone `game`, where alice, bob and eve are: moderate.luau
for everything, turns.luau in the room `chess`, webhook.luau in the room `support`; and rate.luau in
the zone `fast`, where alice is.
"""

import json
import sys

from zone_user import V5, User, response


def chat_is_moderated():
    alice, bob = User("game/alice"), User("game/bob")
    for user in (alice, bob):
        assert user.subscribe("$room/tea/#") == [1]
    assert alice.send("$room/tea/say", "well, damn it")[0] == 0
    assert bob.until("$room/tea/say/alice") == "well, **** it"
    for _ in range(2):
        code, text = alice.send("$room/tea/say", "LISTEN TO ME NOW")
        assert code == response(0x83) and ("shout" in text or not V5), (code, text)
    alice.send("$room/tea/say", "LISTEN TO ME NOW")
    while json.loads(bob.until("$room/tea/event")).get("reason") != "kicked":
        pass
    assert alice.send("$room/tea/say", "hello?")[0] == response(0x87)


def who_sends_too_fast_is_told():
    alice = User("fast/alice")
    codes = [alice.send("t", str(number))[0] for number in range(200)]
    assert codes[:20] == [0] * 20, codes
    # Five a second come after them; nobody sends that slowly.
    assert codes.count(0) < 200 or not V5, codes
    assert set(codes) <= {0, 0x97}, codes


def turns_go_round():
    players = [User("game/alice"), User("game/bob")]
    alice, bob = players
    for user in players:
        assert user.subscribe("$room/chess/#") == [1]
    assert alice.send("$room/chess/say", "good luck")[0] == 0
    assert alice.send("$room/chess/say", '{"start":true}')[0] == 0
    # The server has locked it before.
    turn = None
    while not turn:
        turn = json.loads(bob.until("$room/chess/prop/turn"))["value"]
    assert (turn["player"], turn["number"]) == ("alice", 1), turn
    assert bob.send("$room/chess/say", '{"move":"e4"}')[0] == response(0x87)
    assert alice.send("$room/chess/say", '{"move":"e4"}')[0] == 0
    assert json.loads(bob.until("$room/chess/prop/turn"))["value"]["player"] == "bob"
    moves = None
    while not moves:
        moves = json.loads(bob.until("$room/chess/prop/moves"))["value"]
    forged = json.dumps({"room": "chess", "name": "turn", "value": {"winner": "bob"}})
    bob.subscribe("$reply/+")
    bob.send("$call/room.set/1", forged)
    assert json.loads(bob.until("$reply/1"))["error"] == "property-locked"
    assert [(move["player"], move["move"]) for move in moves] == [("alice", "e4")], moves
    assert bob.send("$room/chess/say", '{"move":"e5"}')[0] == 0
    # Nobody comes in now, and whoever is left has won.
    assert User("game/eve").subscribe("$room/chess/#") == [0x83 if V5 else 0x80]
    alice.client.unsubscribe("$room/chess/#")
    while True:
        turn = json.loads(bob.until("$room/chess/prop/turn"))["value"]
        if "winner" in turn:
            break
    assert turn["winner"] == "bob", turn


def turns_are_built_in():
    """A client makes a room whose turns take a second; nobody moves, and the turn goes on."""
    alice, bob = User("fast/alice"), User("fast/bob")
    alice.subscribe("$reply/+")
    words = {"room": "tea", "properties": {"turn_time": 1}}
    alice.send("$call/room.create/1", json.dumps(words))
    alice.until("$reply/1")
    for user in (alice, bob):
        assert user.subscribe("$room/tea/#") == [1]
    assert bob.send("$room/tea/say", '{"start":true}')[0] == 0
    players = []
    while len(players) < 3:
        turn = json.loads(bob.until("$room/tea/prop/turn"))["value"]
        # A turn may be shown again, as when a player gets lost.
        if turn and turn["number"] == len(players) + 1:
            players.append(turn["player"])
    assert players == ["alice", "bob", "alice"], players


def support_is_bridged():
    """The service that the test runs sees what is said."""
    alice = User("game/alice")
    assert alice.subscribe("$room/support/say/+") == [1]
    assert alice.send("$room/support/say", "it does not work")[0] == 0
    alice.expect("$room/support/say/alice", "it does not work")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
