//! The levels of a rule's pattern.

use super::powers::Powers;
use super::who::{Expansion, Placeholder, Who};

/// One level of a pattern, the last `#` aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Level<'p> {
    /// `+`.
    Plus,
    /// Plain text.
    Text(&'p str),
    /// Text with placeholders.
    Template(Template),
}

/// A level with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Box<[Part]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Name(Placeholder),
}

impl<'p> Level<'p> {
    /// One level of a valid pattern.
    pub(super) fn parse(text: &'p str) -> Self {
        if text == "+" {
            return Self::Plus;
        }
        match Template::parse(text) {
            Some(template) => Self::Template(template),
            None => Self::Text(text),
        }
    }
}

impl Template {
    /// `None` where there is no placeholder.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut from = 0;
        while let Some(at) = rest[from..].find('{').map(|at| from + at) {
            let known = |(form, _): &&(&str, Placeholder)| rest[at..].starts_with(form);
            let Some((form, placeholder)) = Placeholder::ALL.iter().find(known) else {
                from = at + 1;
                continue;
            };
            if at > 0 {
                parts.push(Part::Text(rest[..at].into()));
            }
            parts.push(Part::Name(*placeholder));
            rest = &rest[at + form.len()..];
            from = 0;
        }
        if parts.is_empty() {
            return None;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        Some(Self(parts.into()))
    }

    /// Which of a rule's words count at this level of a topic: all if it is what the template
    /// gives, none if it is not. Where a name may not be used, denials count for every level and
    /// nothing is allowed: who chooses such a name must not gain by it.
    pub(super) fn fit(&self, level: &str, who: &Who) -> Powers {
        let mut rest = Some(level);
        let mut powers = Powers::ALL;
        for part in &self.0 {
            let text = match part {
                Part::Text(text) => text,
                Part::Name(name) => match who.expand(*name) {
                    Expansion::Text(text) => text,
                    Expansion::Any => {
                        powers = Powers::DENY;
                        continue;
                    }
                    Expansion::Nothing => return Powers::NONE,
                },
            };
            rest = rest.and_then(|rest| rest.strip_prefix(text));
        }
        match rest {
            Some("") => powers,
            _ if powers == Powers::DENY => powers,
            _ => Powers::NONE,
        }
    }

    /// Which of a rule's words count at a level that stands for every text.
    pub(super) fn fit_any(&self, who: &Who) -> Powers {
        match self.expand(who) {
            Expanded::Text(_) => Powers::ALL,
            Expanded::Any => Powers::DENY,
            Expanded::Nothing => Powers::NONE,
        }
    }

    /// The level that it gives.
    pub(super) fn expand(&self, who: &Who) -> Expanded {
        let mut level = String::new();
        let mut result = None;
        for part in &self.0 {
            match part {
                Part::Text(text) => level.push_str(text),
                Part::Name(name) => match who.expand(*name) {
                    Expansion::Text(text) => level.push_str(text),
                    Expansion::Any => result = Some(Expanded::Any),
                    Expansion::Nothing => return Expanded::Nothing,
                },
            }
        }
        result.unwrap_or(Expanded::Text(level))
    }

    /// Whether it asks for this name.
    pub(super) fn uses(&self, placeholder: Placeholder) -> bool {
        self.0.contains(&Part::Name(placeholder))
    }
}

/// What a [`Template`] gives for somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expanded {
    /// This level.
    Text(String),
    /// Every level, for denials.
    Any,
    /// Nothing.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(user: &str, client: &str) -> Who {
        Who::new(Some(user.into()), Some(client.into()), "default".into())
    }

    #[test]
    fn levels_are_plain_or_have_placeholders() {
        for (text, is_template) in [
            ("a", false),
            ("", false),
            ("{", false),
            ("{name}", false),
            ("{user", false),
            ("{user}", true),
            ("x{user}", true),
            ("{{user}", true),
            ("{user}{client}", true),
        ] {
            let level = Level::parse(text);
            assert_eq!(matches!(level, Level::Template(_)), is_template, "{text}");
        }
        assert_eq!(Level::parse("+"), Level::Plus);
    }

    #[test]
    fn a_template_fits_what_it_gives() {
        for (text, user, client, level, powers) in [
            ("{user}", "ann", "c", "ann", Powers::ALL),
            ("{user}", "ann", "c", "anna", Powers::NONE),
            ("{user}", "ann", "c", "an", Powers::NONE),
            ("x-{client}-{zone}", "ann", "c", "x-c-default", Powers::ALL),
            ("x-{client}-{zone}", "ann", "c", "x-c-other", Powers::NONE),
            ("{user}{client}", "ann", "c", "annc", Powers::ALL),
            ("{user}", "+", "c", "ann", Powers::DENY),
            ("{user}", "a/b", "c", "a", Powers::DENY),
            ("{user}-{client}", "ann", "#", "x", Powers::DENY),
            ("{user}", "", "c", "", Powers::NONE),
            ("{user}-{client}", "", "#", "x", Powers::NONE),
            ("{user}-{client}", "#", "", "x", Powers::NONE),
        ] {
            let Level::Template(template) = Level::parse(text) else {
                panic!("{text}");
            };
            let who = who(user, client);
            assert_eq!(template.fit(level, &who), powers, "{text} {level}");
            if template.fit(level, &who) == Powers::ALL {
                assert_eq!(template.expand(&who), Expanded::Text(level.to_owned()));
            }
        }
    }
}
