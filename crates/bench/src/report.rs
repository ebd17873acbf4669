//! What is shown and written at the end.

pub(crate) mod command;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod machine;
pub(crate) mod number;
mod series;
pub(crate) mod table;
