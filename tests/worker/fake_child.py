"""A child that misbehaves on request: the method named on the command line. Speaks JSON lines on descriptor 3, with nothing but the standard library."""

import array
import json
import os
import signal
import socket
import sys
import time

mode = sys.argv[1]
sock = socket.socket(fileno=3)
lines = sock.makefile("r")


def send(message):
    sock.sendall((json.dumps(message) + "\n").encode())


for line in lines:
    request = json.loads(line)
    answer = {"id": request["id"]}
    if mode == "good":
        send({"event": "progress", "done": 1})
        send({**answer, "result": {"ms": 1.5}})
    elif mode == "hang":
        time.sleep(1000)
    elif mode == "crash":
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif mode == "fault":
        send({"event": "fault", "signal": 11, "address": "0x10", "where": "guard:output:1"})
        os._exit(139)
    elif mode == "memory":
        send({"event": "fault", "signal": 9, "address": "0x0", "where": "memory"})
        os._exit(137)
    elif mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif mode == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
        send({**answer, "result": {"ms": 1.5}})
    elif mode == "exit":
        os._exit(7)
    elif mode in ("talks", "mumbles"):
        while True:
            send({"event": "other"})
            time.sleep(0.01 if mode == "mumbles" else 0)
    elif mode == "flood":
        for _ in range(200):
            sys.stdout.write("x" * 10000)
        sys.stdout.flush()
        send({**answer, "result": {"ms": 2.5}})
    elif mode == "garbage":
        sock.sendall(b"\xff\x00 not json\n")
    elif mode == "deep":
        sock.sendall(b"[" * 100000 + b"\n")
    elif mode == "wrong_id":
        send({"id": 999, "result": {}})
    elif mode == "no_number":
        send({**answer, "result": {"ms": "soon"}})
    elif mode == "too_many_fds":
        for _ in range(10):
            fds = array.array("i", [0] * 50)
            sock.sendmsg([b" "], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        send({**answer, "result": {"ms": 1}})
    elif mode == "missing_fds":
        send({**answer, "result": {"ms": 1}, "fds": 3})
    elif mode == "reported":
        send({**answer, "error": {"kind": "launch_failed", "message": "too many threads"}})
    elif mode == "invented":
        send({**answer, "error": {"kind": "child_lost", "message": "gone", "hint": "crash"}})
