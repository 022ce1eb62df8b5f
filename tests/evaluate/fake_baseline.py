"""A baseline process that answers without PyTorch: it compiles behind its gate, or as the mode on the command line says. Nothing but the standard library."""

import json
import os
import socket
import sys
import time

mode = sys.argv[1]
sock = socket.socket(fileno=3)
buffer = b""
gates = []
while True:
    while b"\n" not in buffer:
        data, fds, _, _ = socket.recv_fds(sock, 1 << 16, 4)
        if not data:
            sys.exit(0)
        buffer += data
        gates += fds
    line, buffer = buffer.split(b"\n", 1)
    request = json.loads(line)
    result = {}
    if request["method"] == "add":
        if mode == "dies":
            os._exit(7)
        if mode == "hangs":
            time.sleep(1000)
        while os.read(gates[-1], 1):
            pass
        if mode == "dies behind the gate":
            os._exit(7)
        result = {"compile_seconds": 2.5}
    answer = {"id": request["id"], "result": result}
    if mode == "fails" and request["method"] == "add":
        answer = {"id": request["id"], "error": {"kind": "failed", "message": "no such mode"}}
    sock.sendall((json.dumps(answer) + "\n").encode())
