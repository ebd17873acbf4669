//! The two checks that every table goes through.

use stentor_mqtt::{
    DecodeError, DecodeErrorKind, Packet, PacketId, Properties, Property, PropertyBuf, ReasonCode,
    Sender, Version, decode, encode, frame,
};

pub(crate) use stentor_mqtt::Sender::{Client, Server};
pub(crate) use stentor_mqtt::Version::{V5, V31, V311};

/// Versions that a row holds for.
pub(crate) const ALL: &[Version] = &[V31, V311, V5];
pub(crate) const V3: &[Version] = &[V31, V311];
pub(crate) const ONLY_V31: &[Version] = &[V31];
pub(crate) const ONLY_V311: &[Version] = &[V311];
pub(crate) const ONLY_V5: &[Version] = &[V5];

/// A row of a table of things that must be refused.
pub(crate) struct Bad {
    /// Specification identifier and the case.
    pub(crate) name: &'static str,
    pub(crate) versions: &'static [Version],
    pub(crate) from: Sender,
    pub(crate) bytes: &'static [u8],
    pub(crate) kind: DecodeErrorKind,
    pub(crate) reason: ReasonCode,
}

/// A row, written short.
pub(crate) const fn bad(
    name: &'static str,
    versions: &'static [Version],
    from: Sender,
    bytes: &'static [u8],
    kind: DecodeErrorKind,
    reason: ReasonCode,
) -> Bad {
    Bad {
        name,
        versions,
        from,
        bytes,
        kind,
        reason,
    }
}

/// Frames and decodes one packet, as a server or client does.
pub(crate) fn parse(
    version: Version,
    from: Sender,
    bytes: &[u8],
) -> Result<Packet<'_>, DecodeError> {
    let found = frame(bytes, u32::MAX)?.expect("the row holds a whole packet");
    assert_eq!(found.total_len, bytes.len(), "the row holds one packet");
    found.check(version)?;
    decode(version, from, found.first, &bytes[found.header_len..])
}

/// Bytes to packet and packet to the same bytes.
#[track_caller]
pub(crate) fn check_both(
    name: &str,
    version: Version,
    from: Sender,
    bytes: &[u8],
    packet: &Packet<'_>,
) {
    check_decode(name, version, from, bytes, packet);
    check_encode(name, version, packet, bytes);
}

/// Bytes to packet; the bytes are legal but not what the encoder would choose.
#[track_caller]
pub(crate) fn check_decode(
    name: &str,
    version: Version,
    from: Sender,
    bytes: &[u8],
    packet: &Packet<'_>,
) {
    assert_eq!(
        parse(version, from, bytes).as_ref(),
        Ok(packet),
        "{name}, {version:?}"
    );
}

/// Packet to bytes.
#[track_caller]
pub(crate) fn check_encode(name: &str, version: Version, packet: &Packet<'_>, bytes: &[u8]) {
    let mut out = vec![0xEE];
    assert_eq!(
        encode(version, packet, &mut out),
        Ok(()),
        "{name}, {version:?}"
    );
    assert_eq!(out[0], 0xEE, "{name}: what was in the buffer stays");
    assert_eq!(hex(&out[1..]), hex(bytes), "{name}, {version:?}");
}

/// Bytes to the error that the specification names.
#[track_caller]
pub(crate) fn check_bad(rows: &[Bad]) {
    for row in rows {
        for &version in row.versions {
            let error = match parse(version, row.from, row.bytes) {
                Ok(packet) => panic!("{}, {version:?}: accepted as {packet:?}", row.name),
                Err(error) => error,
            };
            assert_eq!(error.kind, row.kind, "{}, {version:?}", row.name);
            assert_eq!(error.reason(), row.reason, "{}, {version:?}", row.name);
        }
    }
}

pub(crate) fn id(raw: u16) -> PacketId {
    PacketId::new(raw).expect("not zero")
}

/// Properties for the packet of a row; they live as long as the test.
pub(crate) fn props(list: &[Property<'_>]) -> Properties<'static> {
    let mut buf = PropertyBuf::new();
    for &property in list {
        buf.push(property);
    }
    Box::leak(Box::new(buf)).as_properties()
}

/// The first bytes of a packet, without panicking on short ones, for readable failures.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
