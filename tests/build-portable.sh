#!/usr/bin/env bash
# Builds stentor-call for Windows (x86-64) and macOS (arm64): build-portable.sh FOLDER
# The files are FOLDER/TARGET/release/stentor-call[.exe]. install-tools.sh gets what this needs.
set -eu

out="$1"
here="$(cd "$(dirname "$0")" && pwd)"
tools="${XDG_CACHE_HOME:-$HOME/.cache}/stentor/tools"
windows=x86_64-pc-windows-gnu
macos=aarch64-apple-darwin
mkdir -p "$out"

# Apple's linker is replaced by that of zig, which brings the interfaces of macOS along. It has no
# libiconv, which Rust asks for and nothing here uses.
cat >"$out/link-macos" <<END
#!/bin/sh
for word; do
    shift
    [ "\$word" = -liconv ] || set -- "\$@" "\$word"
done
exec "$tools/zig/bin/python" -m ziglang cc -target aarch64-macos "\$@"
END
chmod +x "$out/link-macos"

# Debian's compiler with the source of its standard library, which is built for each target. The
# compiler that builds the rest of the project may have no such source.
llvm="$(find "$tools/rust" -name 'libLLVM*.so*' | head -n 1)"
cat >"$out/rustc" <<END
#!/bin/sh
export LD_LIBRARY_PATH="$(dirname "$llvm"):$tools/rust/usr/lib"
exec "$tools/rust/usr/bin/rustc" "\$@"
END
chmod +x "$out/rustc"

# The test that runs this is run by cargo itself, with settings that are for other targets.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS RUSTC_WRAPPER CARGO_BUILD_TARGET
export CARGO_TARGET_DIR="$out" RUSTC="$out/rustc" RUSTC_BOOTSTRAP=1
export CARGO_TARGET_AARCH64_APPLE_DARWIN_LINKER="$out/link-macos"
export ZIG_GLOBAL_CACHE_DIR="$out/zig"
# In the profile of releases, which leaves out what is not used: Debian 12's Wine lacks a library
# that the rest of Rust's standard library needs.
export CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_STRIP=none
cd "$here/.."
exec "${CARGO:-cargo}" build --release --locked --package stentor-call \
    --target "$windows" --target "$macos" -Z build-std=std,panic_abort -Z build-std-features=
