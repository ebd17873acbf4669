#!/usr/bin/env python3
"""Stands where mosquitto's tests expect their broker: translates its options and becomes Stentor.

A test with an option that Stentor has not is told apart by a file in the folder `SKIPPED`.
"""

import os
import pathlib
import sys
import tempfile

IGNORED = {"autosave_interval", "connection_messages", "log_dest", "log_type", "persistence"}
IGNORED |= {"persistence_file"}
LIMITS = {"max_packet_size": "packet_bytes", "max_connections": "connections"}
LIMITS |= {"max_queued_messages": "queue_messages", "max_queued_bytes": "queue_bytes"}


def lacks(option):
    path = pathlib.Path(os.environ["SKIPPED"], os.environ["TEST"])
    path.write_text(option, encoding="utf-8")
    sys.exit(f"there is no {option}")


def options(arguments):
    """Pairs of name and value, from the command line and the file that it names."""
    words = iter(arguments)
    for word in words:
        if word == "-p":
            yield "port", next(words)
        elif word == "-c":
            text = pathlib.Path(next(words)).read_text(encoding="utf-8", errors="replace")
            yield "allow_anonymous", "false"
            for line in map(str.strip, text.splitlines()):
                name, _, value = line.partition(" ")
                if line and not line.startswith("#"):
                    yield name, value.strip()
        elif word != "-v":
            lacks(word)


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="stentor-suite-"))
    top = {"data_dir": str(folder / "data"), "shutdown_timeout": "0s", "allow_anonymous": True}
    # What mosquitto's own defaults are, and its tests count on.
    limits = {"receive_maximum": 20, "inflight": 20, "topic_alias_maximum": 10}
    limits["session_expiry_max"] = "never"
    tables = {"limits": limits, "auth": {}, "sys": {}}
    listeners, each = [], False
    for name, value in options(sys.argv[1:]):
        if name in ("port", "listener"):
            port = int(value.split()[0])
            if not any(listener["port"] == port for listener in listeners):
                listeners.append({"port": port})
        elif name == "per_listener_settings":
            each = value == "true"
        elif name == "allow_anonymous":
            place = listeners[-1] if each and listeners else top
            place["anonymous" if each and listeners else name] = value == "true"
        elif name in LIMITS:
            limits[LIMITS[name]] = int(value)
        elif name == "max_inflight_messages":
            limits["inflight"] = limits["receive_maximum"] = int(value) or 65_535
        elif name == "max_keepalive":
            limits["keep_alive_max"] = f"{value}s"
        elif name == "sys_interval":
            tables["sys"]["interval"] = f"{value}s"
        elif name == "password_file":
            tables["auth"]["source"] = f"mosquitto:{pathlib.Path(value).resolve()}"
        elif name in ("certfile", "keyfile", "cafile"):
            listeners[-1][name] = pathlib.Path(value).resolve()
        elif name not in IGNORED:
            lacks(f"{name} {value}".split("/")[0].strip())
    lines = [f"{name} = {toml(value)}" for name, value in top.items()]
    for table, entries in tables.items():
        lines.append(f"[{table}]")
        lines += [f"{name} = {toml(value)}" for name, value in entries.items()]
    for listener in listeners:
        scheme = "mqtts" if "certfile" in listener else "mqtt"
        lines += ["[[listener]]", f'url = "{scheme}://127.0.0.1:{listener["port"]}"']
        if "anonymous" in listener:
            lines.append(f"anonymous = {toml(listener['anonymous'])}")
        if "certfile" in listener:
            # mosquitto completes the chain from its authorities.
            chain = listener["certfile"].read_text() + listener["cafile"].read_text()
            path = folder / f"{listener['port']}.pem"
            path.write_text(chain, encoding="utf-8")
            lines += [f'certificate = "{path}"', f'key = "{listener["keyfile"]}"']
    config = folder / "stentor.toml"
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    stentor = os.environ["STENTOR"]
    os.execv(stentor, [stentor, "serve", "--config", str(config)])


def toml(value):
    return str(value).lower() if isinstance(value, (bool, int)) else f'"{value}"'


if __name__ == "__main__":
    main()
