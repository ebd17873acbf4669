//! A call, as scripts see it.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use mail_parser::MessageParser;
use mlua::{Error, Lua, MetaMethod, Result, Table, UserData, UserDataFields, UserDataMethods};
use stentor_call_protocol::headers_end;
use stentor_call_protocol::limits::HEAD_BYTES_MAX;

use crate::answer::Change;
use crate::call::Call;
use crate::manifest::{Manifest, Need};
use crate::message;
use crate::mime;
use crate::parts::{self, PartsError};

/// Changes of one call.
const CHANGES_MAX: usize = 1000;
/// Bytes that all changes of one call insert.
const INSERTED_BYTES_MAX: usize = 16 << 20;

/// The changes that a script makes; the view and whoever finishes the call have it.
#[derive(Clone, Default)]
pub(crate) struct Changes(Rc<RefCell<Vec<Change>>>);

impl Changes {
    /// The changes in the order of their offsets; what is added stands before what is deleted.
    pub(crate) fn take(&self) -> std::result::Result<Vec<Change>, String> {
        let mut changes = self.0.take();
        changes.sort_by_key(|change| (change.offset, change.deleted));
        let mut at = 0;
        for change in &changes {
            if change.offset < at {
                return Err("two changes overlap".to_owned());
            }
            at = change.offset + change.deleted;
        }
        Ok(changes)
    }
}

/// A call, as scripts see it: the argument of their function.
pub(crate) struct View<'a> {
    call: &'a Call,
    needs: Need,
    headers: OnceCell<Vec<Field>>,
    message: OnceCell<Vec<u8>>,
    changes: Changes,
}

fn unreadable(error: &std::io::Error) -> Error {
    Error::runtime(format!("read the message: {error}"))
}

/// One header of a message.
struct Field {
    name: String,
    /// Unfolded and decoded.
    value: String,
    /// Where it is in the message, its line end included.
    from: usize,
    to: usize,
}

impl<'a> View<'a> {
    pub(crate) fn new(call: &'a Call, manifest: &Manifest, changes: Changes) -> Self {
        Self {
            call,
            needs: manifest.needs,
            headers: OnceCell::new(),
            message: OnceCell::new(),
            changes,
        }
    }

    fn need(&self, need: Need, what: &str) -> Result<()> {
        if self.needs >= need {
            return Ok(());
        }
        Err(Error::runtime(format!(
            "{what}: the manifest has to say needs = \"{}\"",
            need.name()
        )))
    }

    fn message(&self) -> Result<&[u8]> {
        if let Some(message) = self.message.get() {
            return Ok(message);
        }
        let read = if self.needs == Need::Body {
            self.call.message.read()
        } else {
            self.call.message.headers()
        };
        let message = read.map_err(|error| unreadable(&error))?;
        Ok(self.message.get_or_init(|| message))
    }

    fn fields(&self) -> Result<&[Field]> {
        self.need(Need::Headers, "headers")?;
        if let Some(fields) = self.headers.get() {
            return Ok(fields);
        }
        let message = self.message()?;
        let end = headers_end(message).unwrap_or(message.len());
        if end > HEAD_BYTES_MAX {
            return Err(unreadable(&message::too_long()));
        }
        let message = &message[..end];
        let parser = MessageParser::new().default_header_text();
        let fields = parser
            .parse_headers(message)
            .map_or_else(Vec::new, |parsed| {
                let fields = parsed.headers().iter().map(|header| Field {
                    name: header.name().to_owned(),
                    value: {
                        let raw = unfolded(message, header.offset_start(), header.offset_end());
                        match header.value().as_text() {
                            // Only what is encoded needs the parser, which drops the brackets of
                            // addresses and ids.
                            Some(text) if raw.contains("=?") => text.to_owned(),
                            _ => raw,
                        }
                    },
                    from: header.offset_field() as usize,
                    to: header.offset_end() as usize,
                });
                fields.collect()
            });
        Ok(self.headers.get_or_init(|| fields))
    }

    /// The values of all headers of that name, top first.
    fn values(&self, name: &str) -> Result<Vec<String>> {
        let fields = self.fields()?.iter();
        let named = fields.filter(|field| field.name.eq_ignore_ascii_case(name));
        Ok(named.map(|field| field.value.clone()).collect())
    }

    /// A change at a place of the message.
    fn change(&self, offset: usize, deleted: usize, inserted: Vec<u8>) -> Result<()> {
        if !self.call.can_edit {
            return Err(Error::runtime("the caller cannot change the message"));
        }
        let mut changes = self.changes.0.borrow_mut();
        let total: usize = changes.iter().map(|change| change.inserted.len()).sum();
        if changes.len() >= CHANGES_MAX || total + inserted.len() > INSERTED_BYTES_MAX {
            return Err(Error::runtime("too many changes of one message"));
        }
        let size = self.call.message.size();
        let end = offset.checked_add(deleted).map(|end| end as u64);
        if end.is_none_or(|end| end > size) {
            return Err(Error::runtime(format!(
                "a change at {offset} is outside of the message's {size} bytes"
            )));
        }
        changes.push(Change {
            offset: self.call.message.start() + offset as u64,
            deleted: deleted as u64,
            inserted,
        });
        Ok(())
    }

    fn add_header(&self, name: &str, value: &str) -> Result<()> {
        let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_name) {
            return Err(Error::runtime(format!(
                "add_header: \"{name}\" is not the name of a header"
            )));
        }
        if value.len() > 900 || value.chars().any(char::is_control) {
            return Err(Error::runtime(
                "add_header: a value is one line of up to 900 bytes",
            ));
        }
        let end = self.line_end()?;
        self.change(0, 0, format!("{name}: {value}{end}").into_bytes())
    }

    fn remove_header(&self, name: &str) -> Result<usize> {
        let mut removed = 0;
        for field in self.fields()? {
            if field.name.eq_ignore_ascii_case(name) {
                self.change(field.from, field.to - field.from, Vec::new())?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// The line end that the message uses.
    fn line_end(&self) -> Result<&'static str> {
        self.need(Need::Headers, "changes")?;
        Ok(mime::line_end(self.message()?))
    }

    /// The parts of the message that are not containers.
    fn parts(&self, lua: &Lua) -> Result<Table> {
        self.need(Need::Body, "parts")?;
        let list = lua.create_table()?;
        parts::walk(self.message()?, &mut |part| {
            let entry = lua.create_table()?;
            entry.set("type", part.kind.as_str())?;
            entry.set("name", part.names.first().map(String::as_str))?;
            entry.set("names", part.names.as_slice())?;
            entry.set("size", part.content.len())?;
            entry.set("content", lua.create_string(&part.content)?)?;
            entry.set("is_text", part.is_text())?;
            entry.set("is_encoded", part.is_encoded)?;
            entry.set("is_signed", part.is_signed)?;
            if let Some(place) = part.place {
                entry.set("from", place.start)?;
                entry.set("to", place.end)?;
            }
            list.push(entry)
        })?;
        Ok(list)
    }

    fn arguments(&self, lua: &Lua) -> Result<Table> {
        let table = lua.create_table()?;
        // The first of a name counts.
        for (name, value) in self.call.arguments.iter().rev() {
            table.set(name.as_str(), value.as_str())?;
        }
        Ok(table)
    }
}

impl From<PartsError> for Error {
    fn from(error: PartsError) -> Self {
        Self::runtime(error)
    }
}

/// The text of a header on one line.
fn unfolded(message: &[u8], from: u32, to: u32) -> String {
    let raw = message.get(from as usize..to as usize).unwrap_or_default();
    let lines = raw.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let lines: Vec<_> = lines.map(String::from_utf8_lossy).collect();
    lines.join(" ").trim().to_owned()
}

impl UserData for View<'_> {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        // What errors call it.
        fields.add_meta_field(MetaMethod::Type, "call");
        fields.add_field_method_get("procedure", |_, view| Ok(view.call.procedure.clone()));
        fields.add_field_method_get("args", |lua, view| view.arguments(lua));
        fields.add_field_method_get("size", |_, view| Ok(view.call.message.size()));
        fields.add_field_method_get("caller", |_, view| Ok(view.call.caller.name().into_owned()));
        fields.add_field_method_get("can_edit", |_, view| Ok(view.call.can_edit));
        fields.add_field_method_get("from", |_, view| {
            view.need(Need::Envelope, "from")?;
            Ok(view.call.envelope.from.clone())
        });
        fields.add_field_method_get("rcpt", |_, view| {
            view.need(Need::Envelope, "rcpt")?;
            Ok(view.call.envelope.recipients.clone())
        });
        fields.add_field_method_get("client", |_, view| Ok(view.call.envelope.client.clone()));
        fields.add_field_method_get("helo", |_, view| Ok(view.call.envelope.helo.clone()));
        fields.add_field_method_get("user", |_, view| Ok(view.call.envelope.user.clone()));
        fields.add_field_method_get("queue_id", |_, view| {
            Ok(view.call.envelope.queue_id.clone())
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("header", |_, view, name: String| {
            Ok(view.values(&name)?.into_iter().next())
        });
        methods.add_method("headers", |_, view, name: String| view.values(&name));
        methods.add_method("parts", |lua, view, ()| view.parts(lua));
        methods.add_method("raw", |lua, view, ()| {
            view.need(Need::Body, "raw")?;
            lua.create_string(view.message()?)
        });
        methods.add_method("add_header", |_, view, (name, value): (String, String)| {
            view.add_header(&name, &value)
        });
        methods.add_method("remove_header", |_, view, name: String| {
            view.remove_header(&name)
        });
        methods.add_method(
            "insert",
            |_, view, (offset, text): (usize, mlua::LuaString)| {
                view.need(Need::Body, "insert")?;
                view.change(offset, 0, text.as_bytes().to_vec())
            },
        );
        methods.add_method("append", |_, view, text: mlua::LuaString| {
            view.need(Need::Body, "append")?;
            let size = usize::try_from(view.call.message.size()).map_err(Error::external)?;
            view.change(size, 0, text.as_bytes().to_vec())
        });
        methods.add_method("delete", |_, view, (offset, len): (usize, usize)| {
            view.need(Need::Body, "delete")?;
            view.change(offset, len, Vec::new())
        });
        methods.add_method("line_end", |_, view, ()| view.line_end());
    }
}
