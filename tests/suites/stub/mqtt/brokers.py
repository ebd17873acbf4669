"""Stands where paho's tests expect the broker of paho.mqtt.testing: starts Stentor."""

import os
import subprocess
import tempfile
import types

listeners = types.SimpleNamespace(TCPListeners=types.SimpleNamespace(server=None))


class _Server:
    """What those tests look for in a socketserver."""

    def __init__(self, process, port):
        self.process = process
        self.socket = types.SimpleNamespace(getsockname=lambda: ("127.0.0.1", port))

    def shutdown(self):
        self.process.terminate()
        self.process.wait()
        listeners.TCPListeners.server = None

    def server_close(self):
        pass


def run(config):
    port = config[0].split()[1]
    with tempfile.TemporaryDirectory() as data:
        command = [os.environ["STENTOR"], "serve", "--allow-anonymous", "--data-dir", data]
        process = subprocess.Popen(
            [*command, "--listen", f"mqtt://127.0.0.1:{port}"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        bound = int(process.stdout.readline().rsplit(":", 1)[1])
        listeners.TCPListeners.server = _Server(process, bound)
        process.wait()
