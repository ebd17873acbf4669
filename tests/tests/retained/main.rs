//! Retained messages over restarts, kills and full disks.

mod commands;
mod damage;
mod disk;
mod flags;
mod history;
mod kill;
mod support;
mod survive;
mod whose;
