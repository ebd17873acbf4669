#!/usr/bin/env python3
"""Runs other projects' test suites against the built `stentor`.

    python3 tests/suites/run.py [--binary PATH] [gmqtt] [paho] [mosquitto]

Their packages come by pip and apt-get into the cache; nothing of them is part of this project.
What each may fail, and why, stands in `expected.txt` beside this file: any other failure, or none
at all of a suite's tests run, ends this program with 1.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
CACHE = CACHE / "stentor" / "suites"
PYTHON = CACHE / "python" / "bin" / "python"
PACKAGES = ["paho-mqtt==2.2.0", "gmqtt==0.8.0", "pytest", "pytest-asyncio", "psutil"]
SECONDS = 180


def expected(suite):
    """Names of tests that may fail, with the reasons."""
    lines = (HERE / "expected.txt").read_text(encoding="utf-8").splitlines()
    found = (re.fullmatch(rf"{suite} (\S+): (.+)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def prepare():
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", CACHE / "python"], check=True)
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", *PACKAGES], check=True)
    for name in PACKAGES[:2]:
        subprocess.run(
            [*pip, "download", "--quiet", "--no-deps", "--no-binary", ":all:", "-d", CACHE, name],
            check=True,
        )
    for archive in CACHE.glob("*.tar.gz"):
        shutil.unpack_archive(archive, CACHE, filter="data")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def pytest(folder, tests, environment):
    """Each failed test and the number of those that passed."""
    command = [PYTHON, "-m", "pytest", "-q", "-rA", "-o", "asyncio_mode=auto", *tests]
    result = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE
    )
    verdicts = re.findall(r"^(PASSED|FAILED|ERROR) \S*::(\S+)", result.stdout, re.MULTILINE)
    failed = {name for verdict, name in verdicts if verdict != "PASSED"}
    if failed - set(expected(folder.name.split("-")[0].split("_")[0])):
        print(result.stdout[-20_000:])
    return failed, sum(verdict == "PASSED" for verdict, _ in verdicts)


def gmqtt(binary):
    with tempfile.TemporaryDirectory() as data:
        command = [binary, "serve", "--allow-anonymous", "--data-dir", data]
        server = subprocess.Popen(
            [*command, "--listen", "mqtt://127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        try:
            port = server.stdout.readline().rsplit(":", 1)[1].strip()
            environment = {"HOST": "127.0.0.1", "PORT": port, "TOKEN": "", "USERNAME": ""}
            return pytest(CACHE / "gmqtt-0.8.0", ["tests"], environment)
        finally:
            server.terminate()
            server.wait()


def paho(binary):
    environment = {"PYTHONPATH": str(HERE / "stub"), "STENTOR": binary}
    return pytest(CACHE / "paho_mqtt-2.2.0", ["tests/test_mqttv5.py"], environment)


def mosquitto_source():
    """The source of the mosquitto that this Debian has, from its own package sources."""
    folder = CACHE / "mosquitto"
    if not folder.exists():
        with tempfile.TemporaryDirectory() as apt:
            lists = pathlib.Path(apt)
            for path in pathlib.Path("/etc/apt/sources.list.d").glob("*.sources"):
                text = path.read_text(encoding="utf-8")
                text = re.sub(r"(?m)^Types: deb$", "Types: deb-src", text)
                (lists / path.name).write_text(text, encoding="utf-8")
            (lists / "state" / "partial").mkdir(parents=True)
            options = [f"Dir::Etc::SourceParts={apt}", "Dir::Etc::SourceList=/dev/null"]
            options += [f"Dir::State::Lists={apt}/state", "APT::Sandbox::User=root"]
            apt_get = ["apt-get", "-q"] + [word for option in options for word in ("-o", option)]
            subprocess.run([*apt_get, "update"], check=True)
            fetch = [*apt_get, "--download-only", "source", "mosquitto"]
            subprocess.run(fetch, cwd=apt, check=True)
            (archive,) = lists.glob("*.orig.tar.*")
            shutil.unpack_archive(archive, lists / "unpacked", filter="data")
            (source,) = (lists / "unpacked").iterdir()
            shutil.move(source, folder)
        # The certificates of the package have run out or will.
        subprocess.run(["bash", "gen.sh"], cwd=folder / "test" / "ssl", check=True)
        helper = folder / "test" / "broker" / "mosq_test_helper.py"
        with helper.open("a", encoding="utf-8") as file:
            file.write("\nimport compare\n")
    broker = shutil.copy(HERE / "stand_in.py", folder / "src" / "mosquitto")
    os.chmod(broker, 0o755)
    return folder / "test" / "broker"


def mosquitto(binary):
    broker = mosquitto_source()
    text = (broker / "test.py").read_text(encoding="utf-8")
    tests = re.findall(r"^\s*\((\d), '\./([^']+)'", text, re.MULTILINE)
    skipped = broker / "skipped"
    shutil.rmtree(skipped, ignore_errors=True)
    skipped.mkdir()
    environment = {**os.environ, "STENTOR": binary, "SKIPPED": str(skipped)}
    environment["PYTHONPATH"] = str(HERE)

    def run(test):
        ports = [str(free_port()) for _ in range(int(test[0]))]
        process = subprocess.Popen(
            [PYTHON, test[1], *ports], cwd=broker, env={**environment, "TEST": test[1]},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        try:
            return test[1], process.wait(SECONDS) == 0
        except subprocess.TimeoutExpired:
            return test[1], False
        finally:
            # A test that fails by an exception leaves its brokers running.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(pool.map(run, tests))
    needs = {path.name: path.read_text(encoding="utf-8") for path in skipped.iterdir()}
    print(f"mosquitto: {len(needs)} tests are about options that Stentor has not")
    failed = {name for name, passed in results.items() if not passed and name not in needs}
    return failed, sum(passed and name not in needs for name, passed in results.items())


def main():
    suites = {"gmqtt": gmqtt, "paho": paho, "mosquitto": mosquitto}
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default="target/debug/stentor")
    parser.add_argument("suites", nargs="*", choices=[[], *suites], metavar="suite")
    given = parser.parse_args()
    prepare()
    right = True
    for suite in given.suites or suites:
        failed, passed = suites[suite](os.path.abspath(given.binary))
        reasons = expected(suite)
        print(f"{suite}: {passed} passed, {len(failed)} failed")
        for name in sorted(failed):
            print(f"  {name}: {reasons.get(name, 'NOT EXPECTED')}")
        right = right and passed > 0 and failed <= set(reasons)
    sys.exit(not right)


if __name__ == "__main__":
    main()
