//! What is shown and written at the end.

pub(crate) mod json;
pub(crate) mod machine;
pub(crate) mod number;
pub(crate) mod table;
