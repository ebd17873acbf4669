//! Chance that can be repeated.

/// A small generator: reproducible, and good enough to stumble about.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a>(&mut self, from: &[&'a [u8]]) -> &'a [u8] {
        from[self.below(from.len())]
    }
}

/// Prints the seed of a random world when the test fails in it, wherever the panic comes from.
struct SeedGuard(u64);

impl Drop for SeedGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {0}: STENTOR_SEED={0} runs it alone", self.0);
        }
    }
}

/// Runs a random test with each seed up to `seeds`: with 2,000 under `STENTOR_SOAK`, up to that of
/// `STENTOR_SEEDS`, and with the one of `STENTOR_SEED` alone.
pub fn run_seeds(seeds: u64, run: impl Fn(u64)) {
    run_seeds_or(seeds, 2_000, run);
}

/// Runs so many seeds, or so many others where there is time, or the one that is asked for.
pub fn run_seeds_or(seeds: u64, soak_seeds: u64, run: impl Fn(u64)) {
    if let Ok(seed) = std::env::var("STENTOR_SEED") {
        let seed = seed.parse().expect("STENTOR_SEED is a number");
        let _guard = SeedGuard(seed);
        return run(seed);
    }
    let asked = std::env::var("STENTOR_SEEDS").ok();
    let asked = asked.map(|asked| asked.parse().expect("STENTOR_SEEDS is a number"));
    let soak = std::env::var_os("STENTOR_SOAK").is_some();
    for seed in 1..=asked.unwrap_or(if soak { soak_seeds } else { seeds }) {
        let _guard = SeedGuard(seed);
        run(seed);
    }
}
