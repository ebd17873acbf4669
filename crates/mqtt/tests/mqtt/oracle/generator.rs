//! Packets from a seed: written by hand rather than with the codec under test.

use stentor_mqtt::Version;

/// Makes packets. The same seed makes the same packets on every machine.
pub(crate) struct Generator {
    state: u64,
}

/// Identifiers of the properties that each packet may have [MQTT 5.0, table 2-4].
const CONNECT: &[u8] = &[17, 21, 22, 23, 25, 33, 34, 38, 39];
const WILL: &[u8] = &[1, 2, 3, 8, 9, 24, 38];
const CONNACK: &[u8] = &[
    17, 18, 19, 21, 22, 26, 28, 31, 33, 34, 36, 37, 38, 39, 40, 41, 42,
];
const PUBLISH: &[u8] = &[1, 2, 3, 8, 9, 11, 35, 38];
const ACK: &[u8] = &[31, 38];
const SUBSCRIBE: &[u8] = &[11, 38];
const UNSUBSCRIBE: &[u8] = &[38];
const DISCONNECT: &[u8] = &[17, 28, 31, 38];
const AUTH: &[u8] = &[21, 22, 31, 38];

const TEXTS: &[&str] = &[
    "",
    "a",
    "text",
    "\u{e4}\u{1F980}",
    "with space",
    "\u{7f}\u{FEFF}",
];
const NAMES: &[&str] = &["t", "/", "a/b", "$SYS/x", "sport/\u{fc}ber", "a//b"];
const FILTERS: &[&str] = &["t", "#", "+", "a/+/b", "$share/g/a/#", "a/#", "$SYS/#"];

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// The usual choice, now and then any byte.
    fn mostly(&mut self, usual: &[u8]) -> u8 {
        if self.one_in(60) {
            self.byte()
        } else {
            self.pick(usual)
        }
    }

    /// A packet of a random type with its fixed header.
    pub(crate) fn packet(&mut self) -> (Version, Vec<u8>) {
        let version = if self.one_in(3) {
            Version::V311
        } else {
            Version::V5
        };
        let v5 = version.is_v5();
        let kind = 1 + self.below(if v5 { 15 } else { 14 }) as u8;
        let mut out = Vec::new();
        let mut first = kind << 4;
        match kind {
            1 => self.connect(v5, &mut out),
            2 => self.connack(v5, &mut out),
            3 => first = self.publish(v5, &mut out),
            4..=7 => {
                let reasons: &[u8] = if kind < 6 {
                    &[0, 0x10, 0x80, 0x87, 0x97, 0x99]
                } else {
                    &[0, 0x92]
                };
                self.ack(v5, reasons, &mut out);
            }
            8 => self.subscribe(v5, &mut out),
            9 => self.suback(
                v5,
                &[0, 1, 2, 0x80],
                &[0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E],
                &mut out,
            ),
            10 => self.unsubscribe(v5, &mut out),
            11 if v5 => self.suback(v5, &[0, 0x11], &[0x80, 0x83, 0x87, 0x8F, 0x91], &mut out),
            11 => self.packet_id(&mut out),
            14 if v5 => self.ending(
                DISCONNECT,
                &[0, 4, 0x80, 0x82, 0x8B, 0x8D, 0x98, 0xA2],
                &mut out,
            ),
            15 => self.ending(AUTH, &[0, 0x18, 0x19], &mut out),
            _ => {}
        }
        if matches!(kind, 6 | 8 | 10) {
            first |= 2;
        }
        (version, with_header(first, &out))
    }

    /// Flips, cuts, repeats or inserts bytes; the remaining length is mended half of the time.
    pub(crate) fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(2) {
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.byte(),
                2 => bytes.truncate(at.max(2)),
                3 => bytes.insert(at, self.pick(&[0, 1, 0xFF, b'#', 0x26])),
                _ => {
                    bytes.remove(at);
                }
            }
            if bytes.len() < 2 {
                bytes.resize(2, 0);
            }
        }
        if bytes[1] < 0x80 && bytes.len() < 130 {
            bytes[1] = (bytes.len() - 2) as u8;
        }
    }

    fn packet_id(&mut self, out: &mut Vec<u8>) {
        let high = self.mostly(&[0, 0, 0x12]);
        let low = self.mostly(&[1, 2, 0xFF]);
        out.extend_from_slice(&[high, low]);
    }

    fn binary(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        out.extend_from_slice(bytes);
    }

    fn text(&mut self, out: &mut Vec<u8>) {
        if self.one_in(80) {
            let wrong: &[u8] = self.pick(&[&[0xFF][..], &[0], &[0xED, 0xA0, 0x80], &[0xC0, 0x80]]);
            self.binary(wrong, out);
        } else {
            let text = self.pick(TEXTS);
            self.binary(text.as_bytes(), out);
        }
    }

    fn name(&mut self, out: &mut Vec<u8>) {
        match self.below(80) {
            0 => self.text(out),
            1 => {
                let filter = self.pick(FILTERS);
                self.binary(filter.as_bytes(), out);
            }
            _ => {
                let name = self.pick(NAMES);
                self.binary(name.as_bytes(), out);
            }
        }
    }

    fn filter(&mut self, out: &mut Vec<u8>) {
        if self.one_in(80) {
            self.text(out);
        } else {
            let filter = self.pick(FILTERS);
            self.binary(filter.as_bytes(), out);
        }
    }

    fn bytes(&mut self, out: &mut Vec<u8>) {
        let bytes: Vec<u8> = (0..self.below(5)).map(|_| self.byte()).collect();
        self.binary(&bytes, out);
    }

    /// A value that the property may have, now and then one that it may not.
    fn property(&mut self, id: u8, out: &mut Vec<u8>) {
        out.push(id);
        match id {
            1 | 23 | 25 | 36 | 37 | 40 | 41 | 42 => out.push(self.mostly(&[0, 1])),
            19 | 33 | 34 | 35 => {
                let value = if self.one_in(40) {
                    0
                } else {
                    1 + self.below(65_535) as u16
                };
                out.extend_from_slice(&value.to_be_bytes());
            }
            2 | 17 | 24 | 39 => {
                let value = if self.one_in(40) {
                    0
                } else {
                    1 + self.next() as u32 / 2
                };
                out.extend_from_slice(&value.to_be_bytes());
            }
            11 => out.extend_from_slice(self.pick(&[
                &[1][..],
                &[0x7F],
                &[0x80, 1],
                &[0xFF, 0xFF, 0xFF, 0x7F],
                &[2],
                &[3],
                &[0x85, 0x06],
            ])),
            8 => self.name(out),
            9 | 22 => self.bytes(out),
            38 => {
                self.text(out);
                self.text(out);
            }
            _ => self.text(out),
        }
    }

    fn properties(&mut self, v5: bool, allowed: &[u8], out: &mut Vec<u8>) {
        if !v5 {
            return;
        }
        let mut list = Vec::new();
        for &id in allowed {
            if self.one_in(3) {
                self.property(id, &mut list);
                if id == 38 && self.one_in(2) {
                    self.property(id, &mut list);
                }
            }
        }
        if self.one_in(60) {
            let id = self.byte() % 44;
            self.property(id, &mut list);
        }
        let mut len = list.len();
        while len >= 0x80 {
            out.push(len as u8 | 0x80);
            len >>= 7;
        }
        out.push(len as u8);
        out.extend_from_slice(&list);
    }

    fn connect(&mut self, v5: bool, out: &mut Vec<u8>) {
        self.binary(b"MQTT", out);
        out.push(if v5 { 5 } else { 4 });
        let will = self.one_in(2);
        let username = self.one_in(2);
        let password = self.one_in(2) && (v5 || username || self.one_in(20));
        let mut flags = u8::from(username) << 7 | u8::from(password) << 6 | u8::from(will) << 2;
        flags |= self.pick(&[0, 2]);
        if will {
            flags |= self.pick(&[0, 0x08, 0x10, 0x20, 0x28, 0x30]);
        }
        if self.one_in(40) {
            flags ^= 1 << self.below(8);
        }
        out.push(flags);
        out.extend_from_slice(&[0, 60]);
        self.properties(v5, CONNECT, out);
        self.text(out);
        if will {
            self.properties(v5, WILL, out);
            self.name(out);
            self.bytes(out);
        }
        if username {
            self.text(out);
        }
        if password {
            self.bytes(out);
        }
    }

    fn connack(&mut self, v5: bool, out: &mut Vec<u8>) {
        out.push(self.mostly(&[0, 0, 1]));
        let code = if v5 {
            self.mostly(&[0, 0, 0x80, 0x84, 0x86, 0x87, 0x88, 0x97, 0x9C, 0x9F])
        } else {
            self.mostly(&[0, 0, 1, 2, 3, 4, 5])
        };
        out.push(code);
        self.properties(v5, CONNACK, out);
    }

    fn publish(&mut self, v5: bool, out: &mut Vec<u8>) -> u8 {
        let qos = self.mostly(&[0, 1, 2]) & 3;
        let dup = qos > 0 && self.one_in(3);
        if v5 && self.one_in(10) {
            self.binary(&[], out);
        } else {
            self.name(out);
        }
        if qos > 0 {
            self.packet_id(out);
        }
        self.properties(v5, PUBLISH, out);
        out.extend((0..self.below(20)).map(|at| at as u8));
        0x30 | u8::from(dup) << 3 | qos << 1 | self.below(2) as u8
    }

    fn ack(&mut self, v5: bool, reasons: &[u8], out: &mut Vec<u8>) {
        self.packet_id(out);
        if v5 && self.one_in(2) {
            self.ending(ACK, reasons, out);
        }
    }

    /// A reason and properties, cut short as far as that is allowed.
    fn ending(&mut self, allowed: &[u8], reasons: &[u8], out: &mut Vec<u8>) {
        match self.below(4) {
            0 => {}
            1 => out.push(self.mostly(reasons)),
            _ => {
                out.push(self.mostly(reasons));
                self.properties(true, allowed, out);
            }
        }
    }

    fn subscribe(&mut self, v5: bool, out: &mut Vec<u8>) {
        self.packet_id(out);
        self.properties(v5, SUBSCRIBE, out);
        let count = if self.one_in(40) {
            0
        } else {
            1 + self.below(3)
        };
        for _ in 0..count {
            self.filter(out);
            let options = if v5 {
                self.mostly(&[0, 1, 2, 0x05, 0x0A, 0x10, 0x20, 0x2E])
            } else {
                self.mostly(&[0, 1, 2])
            };
            out.push(options);
        }
    }

    fn suback(&mut self, v5: bool, reasons: &[u8], more: &[u8], out: &mut Vec<u8>) {
        self.packet_id(out);
        self.properties(v5, ACK, out);
        let count = if self.one_in(40) {
            0
        } else {
            1 + self.below(3)
        };
        for _ in 0..count {
            let list = if v5 && self.one_in(2) { more } else { reasons };
            out.push(self.mostly(list));
        }
    }

    fn unsubscribe(&mut self, v5: bool, out: &mut Vec<u8>) {
        self.packet_id(out);
        self.properties(v5, UNSUBSCRIBE, out);
        let count = if self.one_in(40) {
            0
        } else {
            1 + self.below(3)
        };
        for _ in 0..count {
            self.filter(out);
        }
    }
}

fn with_header(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    let mut len = body.len();
    while len >= 0x80 {
        packet.push(len as u8 | 0x80);
        len >>= 7;
    }
    packet.push(len as u8);
    packet.extend_from_slice(body);
    packet
}
