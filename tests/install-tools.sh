#!/usr/bin/env bash
# Installs the clients of other projects that the black-box tests use. It may be run again and
# again: what is there already is left alone, and then this takes no time.
set -eu

here="$(cd "$(dirname "$0")" && pwd)"
tools="${XDG_CACHE_HOME:-$HOME/.cache}/stentor/tools"
PATH="$PATH:/usr/sbin:/usr/local/sbin"
paho=2.2.0
zig=0.17.1

# apt-get checks signatures as its own user, and scripts of packages change user, too. In some
# containers only root may write to /dev/null, and then both fail with messages that name neither.
apt=() # options for apt-get
null_is_open() {
    setpriv --reuid=65534 --regid=65534 --clear-groups sh -c ': >/dev/null' 2>&1
}
open_null() { # lets every user write to /dev/null, or else apt-get work as root
    [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null || return 0
    null_is_open >&2 && return 0
    echo "install-tools: only root can write to /dev/null; repairing it" >&2
    if [ -c /dev/null ]; then
        chmod 666 /dev/null || true
    else
        rm -f /dev/null && mknod -m 666 /dev/null c 1 3 || true
    fi
    null_is_open >&2 && return 0
    echo "install-tools: /dev/null cannot be repaired; apt-get will work as root" >&2
    apt=(-o APT::Sandbox::User=root)
}

packages=()
add() { # add COMMAND PACKAGE...: the packages are wanted if the command is missing
    command -v "$1" >/dev/null 2>&1 || packages+=("${@:2}")
}
add mosquitto mosquitto
add mosquitto_pub mosquitto-clients
add mariadbd mariadb-server
add mariadb mariadb-client
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || packages+=(postgresql)
# A browser without a window: the README's page is opened in it.
add chromium-headless-shell chromium-headless-shell
# Mail servers and what sends mail through them. They run from the tests' own folders; the ones that
# packages would start stay off.
add postfix postfix
add swaks swaks
add miltertest miltertest
# Sendmail and Exim cannot be installed beside Postfix: they are unpacked further down. They need:
add m4 m4
ldconfig -p 2>/dev/null | grep -q libidn.so.12 || packages+=(libidn12)
add spamd spamd
add spamc spamc
# It reads the metrics, and evaluates the rules and the dashboard below deploy/.
add promtool prometheus
# stentor-call is built for Windows and macOS as well. What Wine runs is the Windows program.
add x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64-win32
[ -x /usr/lib/wine/wine64 ] || packages+=(wine64)
add node nodejs
add npm npm
add python3 python3 python3-venv
if command -v python3 >/dev/null 2>&1 && ! python3 -c 'import ensurepip' 2>/dev/null; then
    packages+=(python3-venv)
fi

if [ "${#packages[@]}" -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "install-tools: please install ${packages[*]}" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    open_null
    apt-get "${apt[@]}" update -qq
    # A freshly installed broker must not start and take port 1883.
    # Postfix asks what kind of site this is; the answer for a site without mail.
    echo "postfix postfix/main_mailer_type select No configuration" | debconf-set-selections
    RUNLEVEL=1 apt-get "${apt[@]}" install -y -qq --no-install-recommends "${packages[@]}" \
        >/dev/null
fi

# Mail servers that are only unpacked, never configured or started by their packages.
if [ ! -x "$tools/mta/usr/sbin/exim4" ] || [ ! -x "$tools/mta/usr/libexec/sendmail/sendmail" ]; then
    mkdir -p "$tools/mta"
    unpack="$(mktemp -d)"
    open_null
    mtas=(exim4-daemon-light sendmail-bin sendmail-cf)
    (cd "$unpack" && { apt-get "${apt[@]}" download -qq "${mtas[@]}" 2>/dev/null ||
        { apt-get "${apt[@]}" update -qq && apt-get "${apt[@]}" download -qq "${mtas[@]}"; }; })
    for package in "$unpack"/*.deb; do
        dpkg-deb -x "$package" "$tools/mta"
    done
    rm -r "$unpack"
fi

# A compiler of Debian's with the source of its standard library: build-portable.sh builds that for
# other systems. It is only unpacked, beside whatever compiler is installed.
if [ ! -x "$tools/rust/usr/bin/rustc" ] || [ ! -d "$tools/rust/usr/lib/rustlib/src" ]; then
    rm -rf "$tools/rust" && mkdir -p "$tools/rust"
    unpack="$(mktemp -d)"
    open_null
    needs() { apt-cache depends "$1" | sed -n "s/.*Depends: \($2[0-9.]*\)$/\1/p" | head -n 1; }
    apt-cache show rustc-web >/dev/null 2>&1 || apt-get "${apt[@]}" update -qq
    std="$(needs libstd-rust-web-dev libstd-rust-web-)"
    compiler=(rustc-web rust-web-src libstd-rust-web-dev "$std" "$(needs "$std" libllvm)")
    (cd "$unpack" && apt-get "${apt[@]}" download -qq "${compiler[@]}")
    for package in "$unpack"/*.deb; do
        dpkg-deb -x "$package" "$tools/rust"
    done
    rm -r "$unpack"
fi
if ! "$tools/zig/bin/python" -c 'import ziglang' 2>/dev/null; then
    python3 -m venv --clear "$tools/zig"
    "$tools/zig/bin/python" -m pip install --quiet --disable-pip-version-check "ziglang==$zig"
fi

# The user that Exim was built to run as, which its package would make.
if [ "$(id -u)" -eq 0 ] && ! id Debian-exim >/dev/null 2>&1; then
    useradd --system --no-create-home --shell /usr/sbin/nologin Debian-exim
fi

if ! "$tools/python/bin/python" -c "
import importlib.metadata as m, sys
sys.exit(m.version('paho-mqtt') != '$paho')" 2>/dev/null; then
    mkdir -p "$tools"
    python3 -m venv --clear "$tools/python"
    "$tools/python/bin/python" -m pip install --quiet --disable-pip-version-check "paho-mqtt==$paho"
fi

# It asks everything that docs/openapi.json describes. All that it needs is pinned, too.
wanted="$here/schemathesis/requirements.txt"
if ! cmp -s "$wanted" "$tools/schemathesis/requirements.txt"; then
    rm -rf "$tools/schemathesis"
    python3 -m venv "$tools/schemathesis"
    "$tools/schemathesis/bin/python" -m pip install --quiet --disable-pip-version-check \
        --requirement "$wanted"
    cp "$wanted" "$tools/schemathesis/requirements.txt"
fi

# The lock file that npm leaves inside node_modules is older than ours exactly if ours has changed.
if [ ! "$here/js/node_modules/.package-lock.json" -nt "$here/js/package-lock.json" ]; then
    (cd "$here/js" && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error >/dev/null)
    touch "$here/js/node_modules/.package-lock.json"
fi
