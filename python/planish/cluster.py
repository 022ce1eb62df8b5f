"""Commands of a suite on a Ray cluster: `python -m planish.cluster`, started by `planish suite --ray` (src/cli/ray_pool.h).

Reads `{"id", "arguments", "seconds"}` and `{"cancel": id}` from descriptor 3 and answers `{"id", "document", "code", "signal"}` or `{"id", "error"}`.
Every worker is an actor with a `planish station`, a warm evaluator, beside it. There are as many as the cluster has room for at the moment.
"""

from __future__ import annotations

import argparse
import json
import logging
import queue
import threading
import time
from collections import deque
from typing import Any

from planish.errors import PlanishError
from planish.wire import Channel

#: A command whose worker was lost so often is named, and not tried again.
ATTEMPTS = 3


class Worker:
    """An actor. Pickled by value: the cluster's Python needs nothing of ours."""

    def __init__(self, name: str, program: str, arguments: list[str], environment: dict[str, str]) -> None:
        import os
        import socket
        import subprocess

        self.name = name
        ours, theirs = socket.socketpair()
        self.station = subprocess.Popen([program, "station", *arguments], stdin=theirs.fileno(), env={**os.environ, **environment})
        theirs.close()
        self.socket = ours
        self.lines = ours.makefile("r")

    def ready(self) -> str:
        import socket

        return socket.gethostname()

    def run(self, arguments: list[str], seconds: float) -> dict[str, Any]:
        import json
        import os

        named = [text.replace("{worker}", self.name) for text in arguments]
        self.socket.sendall(json.dumps({"arguments": named, "seconds": seconds}).encode() + b"\n")
        line = self.lines.readline()
        if not line:
            os._exit(1)  # without its station an actor is lost: another takes over
        return json.loads(line)


class Pool:
    def __init__(self, ray: Any, options: argparse.Namespace, channel: Channel) -> None:
        self.ray, self.options, self.channel = ray, options, channel
        self.waiting: deque[dict[str, Any]] = deque()
        self.starting: dict[Any, Any] = {}  # the future of ready() → actor
        self.idle: list[Any] = []
        self.running: dict[Any, tuple[Any, dict[str, Any]]] = {}  # the future of run() → actor, job
        self.count = 0
        self.next_look = 0.0
        self.said = -1

    def needs(self) -> dict[str, float]:
        """What one worker takes of the cluster. On CPUs the machine is what measures: its cores are shared out."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if self.options.target == "cuda" or (self.options.target == "auto" and any(node.get("GPU", 0) > 0 for node in nodes)):
            return {"num_cpus": 0, "num_gpus": 1 / self.options.workers}
        cores = min((node["CPU"] for node in nodes if node.get("CPU", 0) > 0), default=1)
        return {"num_cpus": max(1, cores // self.options.workers)}

    def fill(self) -> None:
        """Asks for as many workers as there is room and work for."""
        needs = self.needs()
        total = self.ray.cluster_resources()
        room = int(total.get("GPU", 0) / needs["num_gpus"]) if "num_gpus" in needs else int(total.get("CPU", 0) / needs["num_cpus"])
        there = len(self.starting) + len(self.idle) + len(self.running)
        for _ in range(min(room, len(self.waiting) + there) - there):
            self.count += 1
            station = ["--keep-tasks", str(self.options.keep_tasks), "--task-timeout", str(self.options.task_timeout)]
            actor = self.ray.remote(Worker).options(**needs, max_restarts=0, max_task_retries=0)
            worker = actor.remote(f"w{self.count}", self.options.program, station, json.loads(self.options.environment))
            self.starting[worker.ready.remote()] = worker
        now = len(self.idle) + len(self.running)
        if now != self.said:
            self.said = now
            self.channel.send({"event": "workers", "text": f"{now} workers in the cluster"})

    def step(self) -> None:
        if time.monotonic() >= self.next_look:
            self.fill()
            self.next_look = time.monotonic() + 1
        while self.waiting and self.idle:
            job, worker = self.waiting.popleft(), self.idle.pop()
            self.running[worker.run.remote(job["arguments"], job["seconds"])] = (worker, job)
        futures = [*self.starting, *self.running]
        if not futures:
            time.sleep(0.1)
            return
        done, _ = self.ray.wait(futures, num_returns=1, timeout=0.1)
        for future in done:
            self.ended(future)

    def ended(self, future: Any) -> None:
        starting = future in self.starting
        worker, job = (self.starting.pop(future), None) if starting else self.running.pop(future)
        try:
            answer = self.ray.get(future)
        except self.ray.exceptions.RayError as error:  # the worker is gone, with its machine or without
            self.ray.kill(worker)
            if job is not None:
                self.lost(job, error)
            return
        self.idle.append(worker)
        if job is not None and not job.get("cancelled"):
            self.channel.send({"id": job["id"], **answer})

    def lost(self, job: dict[str, Any], error: Exception) -> None:
        job["attempts"] = job.get("attempts", 0) + 1
        if job.get("cancelled"):
            return
        if job["attempts"] < ATTEMPTS:
            self.waiting.appendleft(job)
            return
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        said = {"kind": "worker_lost", "message": f"{ATTEMPTS} workers were lost while they did this; the last: {reason}", "hint": ""}
        self.channel.send({"id": job["id"], "error": said})

    def cancel(self, identity: int) -> None:
        self.waiting = deque(job for job in self.waiting if job["id"] != identity)
        for future, (worker, job) in list(self.running.items()):
            if job["id"] == identity:
                job["cancelled"] = True
                del self.running[future]
                self.ray.kill(worker)

    def close(self) -> None:
        for worker in [*self.starting.values(), *self.idle, *(worker for worker, _ in self.running.values())]:
            self.ray.kill(worker)


def serve(ray: Any, options: argparse.Namespace, channel: Channel) -> None:
    pool = Pool(ray, options, channel)
    messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def read() -> None:
        while (message := channel.receive()) is not None:
            messages.put(message)
        messages.put(None)

    threading.Thread(target=read, daemon=True).start()
    channel.send({"event": "ready"})
    try:
        while True:
            try:
                message = messages.get(timeout=0.0 if pool.waiting or pool.running or pool.starting else 0.2)
            except queue.Empty:
                pool.step()
                continue
            if message is None:
                return
            if "cancel" in message:
                pool.cancel(message["cancel"])
            else:
                pool.waiting.append(message)
    finally:
        pool.close()
        ray.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--address", "--target", "--program", "--environment"):
        parser.add_argument(name, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep-tasks", type=int, default=0)
    parser.add_argument("--task-timeout", type=float, default=600)
    options = parser.parse_args()
    channel = Channel.of_fd(3)
    try:
        try:
            import ray
        except ImportError as error:
            raise PlanishError("missing_package", f"--ray needs the package ray: {error}", "pip install ray, for the Python that has torch") from error
        try:
            ray.init(address=options.address, logging_level=logging.ERROR, log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0]
            raise PlanishError("no_cluster", f"there is no Ray cluster at {options.address}: {reason}", "ray start --head starts one") from error
    except PlanishError as error:
        channel.send({"event": "failed", "error": {"kind": error.kind, "message": error.message, "hint": error.hint}})
        raise SystemExit(1) from None
    serve(ray, options, channel)


if __name__ == "__main__":
    main()
