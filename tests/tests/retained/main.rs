//! Retained messages over restarts, kills and full disks.

mod kill;
mod support;
mod survive;
