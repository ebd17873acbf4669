//! The codec against two codecs that others wrote.
//!
//! A seeded generator makes packets, mostly legal ones, and damages some. Each is decoded by all
//! three. What one accepts and another refuses, or what they read differently, fails the test
//! unless it stands in the list of known divergences with the passage that settles it.

mod compare;
mod divergences;
mod generator;
mod mqtt5_protocol_oracle;
mod protocol_core_oracle;

use compare::{Tally, compare};
use divergences::{LAX, lax_name};
use generator::Generator;
use std::collections::BTreeMap;

/// Packets per run: enough to meet every divergence listed, and done in a second or two.
const CASES: u64 = 200_000;

/// Compares the codecs on `CASES` packets and adds to `tally`.
fn run(seed: u64, damage: bool, tally: &mut Tally) {
    let mut differences = BTreeMap::new();
    for case in 0..CASES {
        let mut generator = Generator::new(seed + case);
        let (version, mut bytes) = generator.packet();
        if damage {
            generator.damage(&mut bytes);
        }
        if let Err(difference) = compare(version, &bytes, tally) {
            let (count, _) = differences
                .entry(difference.summary)
                .or_insert_with(|| (0u64, format!("seed {}: {}", seed + case, difference.detail)));
            *count += 1;
        }
    }
    let report: Vec<_> = differences
        .iter()
        .map(|(summary, (count, example))| format!("{count} times: {summary}\n    {example}"))
        .collect();
    assert!(
        report.is_empty(),
        "unknown differences:\n{}",
        report.join("\n")
    );
}

/// Legal packets, with a wrong turn now and then, and damaged ones.
#[test]
fn three_codecs_agree() {
    let mut tally = Tally::default();
    run(0x5EED_0000_0000, false, &mut tally);
    assert!(tally.accepted > CASES * 2 / 3, "most are legal: {tally:?}");
    let legal = tally.accepted;
    run(0xBAD_0000_0000, true, &mut tally);
    assert!(
        tally.accepted - legal > CASES / 20,
        "damage is not all there is: {tally:?}"
    );
    assert!(tally.refused > CASES / 2, "{tally:?}");
    assert!(
        tally.agreed > tally.known * 20,
        "divergence is the exception: {tally:?}"
    );
    let unmet: Vec<_> = (0..LAX.len())
        .filter(|entry| !tally.met.contains(entry))
        .map(lax_name)
        .collect();
    assert!(
        unmet.is_empty(),
        "no packet shows these divergences any more: {unmet:?}"
    );
}

/// The comparison itself must be able to fail.
#[test]
fn a_different_reading_is_noticed() {
    let packet = [0x30, 0x06, 0x00, 0x01, b't', 0x00, b'h', b'i'];
    let mut tally = Tally::default();
    assert_eq!(
        compare(stentor_mqtt::Version::V5, &packet, &mut tally),
        Ok(())
    );
    assert_eq!(tally.agreed, 2);
    let other = [0x30, 0x06, 0x00, 0x01, b't', 0x00, b'h', b'o'];
    assert!(compare::same_packet(
        stentor_mqtt::Version::V5,
        &packet,
        &packet
    ));
    assert!(!compare::same_packet(
        stentor_mqtt::Version::V5,
        &packet,
        &other
    ));
}
