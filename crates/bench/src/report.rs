//! What is shown and written at the end.

mod bars;
pub(crate) mod command;
pub(crate) mod found;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod machine;
pub(crate) mod number;
pub(crate) mod plain;
mod series;
pub(crate) mod table;
pub(crate) mod visible;
