//! `stentor retained count`.

use stentor_auth::counted;
use stentor_control::retained::Figures;

use crate::admin::table::{bytes, lines};
use crate::output::shown;

/// How many messages there are, where they lie and what is wrong with them, in words.
pub(super) fn text(told: &Figures) -> String {
    let mut rows = vec![(
        "messages",
        format!("{}, with {}", told.messages, bytes(told.bytes)),
    )];
    for one in &told.zones {
        let (zone, size) = (shown(&one.zone), bytes(one.bytes));
        let text = format!("{} in the zone {zone}, with {size}", one.messages);
        rows.push(("", text));
    }
    if told.history_messages > 0 {
        let (topics, size) = (
            counted(told.history_topics, "topic"),
            bytes(told.history_bytes),
        );
        let text = format!("{} of {topics}, with {size}", told.history_messages);
        rows.push(("histories", text));
    }
    let files = counted(told.files, "file");
    rows.push((
        "on disk",
        match told.files {
            0 => "no files".to_owned(),
            _ => format!(
                "{files} of {}, in which {} were used, {} of them by messages that are there",
                bytes(told.file_bytes),
                bytes(told.used_bytes),
                bytes(told.live_bytes)
            ),
        },
    ));
    rows.push((
        "in memory",
        format!("{} for the index", bytes(told.index_bytes)),
    ));
    let damaged = match told.damaged {
        0 => "nothing".to_owned(),
        places => format!(
            "{}; a message is lost or old at {} of them; `stentor retained verify` lists them",
            counted(places, "place"),
            told.losses
        ),
    };
    rows.push(("damaged", damaged));
    let troubles = told.troubles.iter();
    rows.extend(troubles.map(|trouble| ("trouble", shown(trouble))));
    lines(&rows)
}

#[cfg(test)]
mod tests {
    use stentor_control::retained::OfZone;

    use super::*;

    #[test]
    fn a_store_is_told_in_words() {
        let mut told = Figures {
            messages: 3,
            bytes: 2_048,
            zones: vec![OfZone {
                zone: "game".into(),
                messages: 3,
                bytes: 2_048,
            }],
            files: 1,
            file_bytes: 4_096,
            used_bytes: 3_072,
            live_bytes: 2_048,
            index_bytes: 512,
            ..Figures::default()
        };
        let expected = "messages   3, with 2.0 KiB\n           \
                        3 in the zone game, with 2.0 KiB\n\
                        on disk    1 file of 4.0 KiB, in which 3.0 KiB were used, 2.0 KiB of them \
                        by messages that are there\n\
                        in memory  512 B for the index\n\
                        damaged    nothing\n";
        assert_eq!(text(&told), expected);
        (told.history_topics, told.history_messages) = (1, 7);
        told.history_bytes = 100;
        (told.damaged, told.losses) = (2, 1);
        told.troubles = vec!["the disk is full".into()];
        let text = text(&told);
        for part in [
            "2 places; a message is lost or old at 1 of them",
            "trouble    the disk is full",
            "histories  7 of 1 topic, with 100 B",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
