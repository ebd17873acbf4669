//! Retained messages over restarts, kills and full disks.

mod commands;
mod disk;
mod kill;
mod support;
mod survive;
