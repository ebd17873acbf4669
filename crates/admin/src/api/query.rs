//! The part of a URL behind the question mark.

use std::fmt;

/// Why a query is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotQuery {
    /// A percent sign without two digits behind it.
    Escape,
    /// It is not UTF-8.
    Text,
}

impl fmt::Display for NotQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Escape => "a % in a URL needs two hexadecimal digits behind it, such as %20",
            Self::Text => "the query of the URL is not UTF-8",
        })
    }
}

/// The keys and values of a query, in its order.
///
/// # Errors
/// When it is not well-formed: then nothing of it is taken.
pub(crate) fn read(query: &str) -> Result<Vec<(String, String)>, NotQuery> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let read = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decoded(name)?, decoded(value)?))
    });
    read.collect()
}

fn decoded(text: &str) -> Result<String, NotQuery> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || {
                    let digit = char::from(bytes.next()?).to_digit(16)?;
                    u8::try_from(digit).ok()
                };
                let (high, low) = (digit(), digit());
                let pair = high.zip(low).ok_or(NotQuery::Escape)?;
                pair.0 << 4 | pair.1
            }
            byte => byte,
        });
    }
    String::from_utf8(out).map_err(|_| NotQuery::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_read_in_order() {
        let read = |query: &str| {
            let pairs = read(query).expect(query).into_iter();
            pairs.collect::<Vec<(String, String)>>()
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read(""), []);
        assert_eq!(
            read("a=1&b=x%2Fy+z&&c&d="),
            [
                pair("a", "1"),
                pair("b", "x/y z"),
                pair("c", ""),
                pair("d", "")
            ]
        );
        assert_eq!(read("a=b=c%3d"), [pair("a", "b=c=")]);
        assert_eq!(read("%C3%A4=%00"), [pair("\u{e4}", "\0")]);
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        for (query, why) in [
            ("a=%", NotQuery::Escape),
            ("a=%2", NotQuery::Escape),
            ("a=%zz", NotQuery::Escape),
            ("a=%+1", NotQuery::Escape),
            ("%ff=1", NotQuery::Text),
            ("a=%C3", NotQuery::Text),
        ] {
            assert_eq!(read(query), Err(why), "{query}");
        }
    }
}
