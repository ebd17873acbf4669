//! What an append costs, beside a plain copy into a mapped file.
//!
//! `cargo run --release -p stentor-journal --example journal_speed -- FOLDER` makes a folder of its
//! own below FOLDER, fills files there and removes it. Both sides write into files that were made
//! and written ahead, in turns, and the medians of the rounds are compared.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stentor_disk::{Disk, Flusher, MappedDisk, Region};
use stentor_journal::{Bounds, Folder, OpenOptions};

const SEGMENT_BYTES: usize = 16 << 20;
/// Bytes of batches in a round.
const ROUND_BYTES: usize = 24 << 20;
/// Bytes that are appended before the maintenance thread looks.
const SLICE_BYTES: usize = 64 << 10;
const ROUNDS: usize = 7;
/// Bytes of a batch: acknowledgements, a message, a large message.
const LENS: [usize; 4] = [24, 128, 1024, 16 << 10];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("journal-speed-{}", std::process::id()));
    let result = LENS.iter().try_for_each(|len| compare(&folder, *len));
    std::fs::remove_dir_all(&folder)?;
    result
}

fn compare(folder: &Path, len: usize) -> Result<(), Box<dyn Error>> {
    let (mut copies, mut appends) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        copies.push(copy(folder, len)?);
        appends.push(append(folder, len)?);
    }
    let (copy, append) = (median(copies), median(appends));
    println!(
        "{len:>6} bytes: copy {copy:.1} ns, append {append:.1} ns, ratio {:.2}",
        append / copy
    );
    Ok(())
}

fn median(mut nanos: Vec<f64>) -> f64 {
    nanos.sort_by(f64::total_cmp);
    nanos[nanos.len() / 2]
}

/// Nanoseconds of a plain copy, one behind the other.
fn copy(folder: &Path, len: usize) -> Result<f64, Box<dyn Error>> {
    let disk = MappedDisk::new(&folder.join("plain"))?;
    let mut region = disk.grow("plain", ROUND_BYTES)?;
    region.flusher().load(0..ROUND_BYTES, true)?;
    let (batch, step) = (vec![7; len], len.next_multiple_of(8));
    let count = ROUND_BYTES / step;
    let begun = Instant::now();
    for number in 0..count {
        region.write(number * step, black_box(&batch));
    }
    let nanos = begun.elapsed().as_nanos() as f64 / count as f64;
    disk.remove("plain")?;
    Ok(nanos)
}

/// Nanoseconds of an append.
fn append(folder: &Path, len: usize) -> Result<f64, Box<dyn Error>> {
    let folder = folder.join("journal");
    let disk = MappedDisk::new(&folder)?;
    let options = OpenOptions {
        boot: 1,
        random: 7,
        spares_max: 0,
    };
    let mut journals = Folder::open(disk, options)?.folder;
    let bounds = Bounds {
        segment_bytes: SEGMENT_BYTES,
        ahead: 2,
        reserve: 1,
        segments_max: 16,
    };
    let mut journal = journals.journal(0, bounds);
    let batch = vec![7; len];
    let per_slice = SLICE_BYTES.div_ceil(len.next_multiple_of(8) + 24);
    let (mut elapsed, mut count) = (Duration::ZERO, 0);
    while count * len < ROUND_BYTES {
        // The maintenance thread works beside the shard, on another thread.
        journals.serve(&mut journal)?;
        let begun = Instant::now();
        for _ in 0..per_slice {
            black_box(journal.append(black_box(&batch))?);
        }
        elapsed += begun.elapsed();
        count += per_slice;
    }
    let nanos = elapsed.as_nanos() as f64 / count as f64;
    drop((journal, journals));
    std::fs::remove_dir_all(folder)?;
    Ok(nanos)
}
