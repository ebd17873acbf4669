//! What procedures read of what others wrote: manifests, messages and their parts, verdicts as
//! JSON, the output of programs, the answers of other servers.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| stentor_procedure::noise::read(data));
