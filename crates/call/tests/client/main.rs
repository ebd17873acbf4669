//! The built client against servers that answer, hang, drip, lie and die: it always exits before
//! its deadline with the code that its profile promises.

mod answers;
mod changes;
mod faults;
mod handover;
mod promises;
mod support;
