"""Web servers with a certificate, on one port of several addresses of this machine.

    https_server.py CERTIFICATE KEY ADDRESS...      prints the port

To a POST they say a verdict, to a GET its path.
"""

import http.server
import json
import ssl
import sys
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    def say(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.say(self.path.encode())

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        text = f"{len(self.rfile.read(length))} bytes were read"
        self.say(json.dumps({"verdict": "reject", "text": text}).encode())

    def log_message(self, *_):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
port, servers = 0, []
for address in sys.argv[3:]:
    server = http.server.ThreadingHTTPServer((address, port), Handler)
    # The handshake belongs to the thread of the connection.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    port = server.server_port
    servers.append(server)
for server in servers:
    threading.Thread(target=server.serve_forever).start()
print(port, flush=True)
