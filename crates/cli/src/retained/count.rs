//! `stentor retained count`.

use serde_json::Value;
use stentor_auth::counted;

use crate::admin::table::{bytes, lines, plain};

/// How many messages there are, where they lie and what is wrong with them, in words.
pub(super) fn text(answer: &Value) -> String {
    let count = |key: &str| answer[key].as_u64().unwrap_or(0);
    let size = |key: &str| bytes(count(key));
    let mut rows = vec![(
        "messages",
        format!("{}, with {}", count("messages"), size("bytes")),
    )];
    for one in answer["zones"].as_array().into_iter().flatten() {
        let zone = match &one["zone"] {
            Value::Null => "no zone".to_owned(),
            name => format!("the zone {}", plain(name)),
        };
        let size = bytes(one["bytes"].as_u64().unwrap_or(0));
        rows.push((
            "",
            format!("{} in {zone}, with {size}", plain(&one["messages"])),
        ));
    }
    let files = counted(count("files"), "file");
    rows.push((
        "on disk",
        match count("files") {
            0 => "no files".to_owned(),
            _ => format!(
                "{files} of {}, in which {} were used, {} of them by messages that are there",
                size("file_bytes"),
                size("used_bytes"),
                size("live_bytes")
            ),
        },
    ));
    rows.push((
        "in memory",
        format!("{} for the index", size("index_bytes")),
    ));
    let damaged = match count("damaged") {
        0 => "nothing".to_owned(),
        places => format!(
            "{}; a message is lost or old at {} of them; `stentor retained verify` lists them",
            counted(places, "place"),
            count("losses")
        ),
    };
    rows.push(("damaged", damaged));
    let troubles = answer["troubles"].as_array().into_iter().flatten();
    rows.extend(troubles.map(|trouble| ("trouble", plain(trouble))));
    lines(&rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_store_is_told_in_words() {
        let mut answer = json!({
            "messages": 3, "bytes": 2_048,
            "zones": [{ "zone": "game", "messages": 3, "bytes": 2_048 }],
            "files": 1, "file_bytes": 4_096, "used_bytes": 3_072, "live_bytes": 2_048,
            "index_bytes": 512, "damaged": 0, "losses": 0, "troubles": [],
        });
        let expected = "messages   3, with 2.0 KiB\n           \
                        3 in the zone game, with 2.0 KiB\n\
                        on disk    1 file of 4.0 KiB, in which 3.0 KiB were used, 2.0 KiB of them \
                        by messages that are there\n\
                        in memory  512 B for the index\n\
                        damaged    nothing\n";
        assert_eq!(text(&answer), expected);
        answer["damaged"] = 2.into();
        answer["losses"] = 1.into();
        answer["troubles"] = json!(["the disk is full"]);
        let told = text(&answer);
        for part in [
            "2 places; a message is lost or old at 1 of them",
            "trouble    the disk is full",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }
}
