"""A client of the environment endpoint. Imports the standard library alone; objects may be used from many threads."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from dataclasses import dataclass
from typing import Any

from planish.errors import PlanishError

#: A request waits so long at the endpoint, then asks again: less than proxies allow.
_WAIT_SECONDS = 30.0


class EndpointError(PlanishError):
    """The endpoint refused, or could not be reached. `status` is that of HTTP, 0 where there was no answer."""

    def __init__(self, kind: str, message: str, hint: str = "", status: int = 0) -> None:
        super().__init__(kind, message, hint)
        self.status = status


@dataclass(frozen=True)
class Grade:
    """What a completion was found to be; fields as in docs/environment.md. `reward` is None where it could not be judged (`error` says why)."""

    id: str
    task: str
    format_ok: bool
    compiled: bool
    correct: bool
    speedup: float | None
    speedup_interval: tuple[float, float] | None
    baseline: str | None
    reward: float | None
    outcome: str
    message: str
    error: dict[str, str] | None
    verdict: dict[str, Any] | None

    @classmethod
    def of(cls, document: dict[str, Any]) -> Grade:
        return cls(**{name: document[name] for name in cls.__dataclass_fields__})


class Environment:
    """The endpoint at `url`. `token`: else PLANISH_TOKEN of the environment. `timeout`: seconds to wait for one grade, full queues included."""

    def __init__(self, url: str = "http://127.0.0.1:8000", token: str | None = None, timeout: float = 3600.0) -> None:
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._token = os.environ.get("PLANISH_TOKEN", "") if token is None else token

    def tasks(self) -> list[str]:
        """Names of the tasks that it has."""
        return self._ask("GET", "/v1/tasks")["tasks"]

    def source(self, task: str) -> str:
        """The text of a task of its."""
        return self._ask("GET", "/v1/tasks/" + urllib.parse.quote(task))["source"]

    def grade(self, completion: str, task: str = "", task_source: str = "") -> Grade:
        """Waits for the grade. Full queues, connections that break and an endpoint that is started again are borne until the timeout: a submission has
        an id, so that it is judged once however often it is sent."""
        name = uuid.uuid4().hex
        deadline = time.monotonic() + self.timeout
        while True:
            left = deadline - time.monotonic()
            try:
                document = self._submit(completion, task, task_source, name, max(0.0, min(_WAIT_SECONDS, left)))
            except EndpointError as error:
                if error.status not in (0, 429, 503) or left <= 0:
                    raise
                time.sleep(min(max(left, 0.0), float(error.hint) if error.status and error.hint.isdigit() else 1.0))
                continue
            if document["status"] == "done":
                return Grade.of(document)
            if left <= 0:
                raise EndpointError("timeout", f"{name} was not judged within {self.timeout:g} s", "ask for it again by its id", 202)

    def submit(self, completion: str, task: str = "", task_source: str = "") -> str:
        """The id under which `result` gives the grade. Full queues are an EndpointError of kind `queue_full`."""
        return self._submit(completion, task, task_source, uuid.uuid4().hex, 0.0)["id"]

    def result(self, submission: str, wait: float = 0.0) -> Grade | None:
        """The grade, or None where it is not there after so many seconds."""
        document = self._ask("GET", f"/v1/grades/{urllib.parse.quote(submission, safe='')}?wait={wait:.3f}", wait=wait)
        return Grade.of(document) if document["status"] == "done" else None

    def _submit(self, completion: str, task: str, task_source: str, name: str, wait: float) -> dict[str, Any]:
        body: dict[str, Any] = {"completion": completion, "id": name, "wait": wait}
        body |= {"task": task} if task else {"task_source": task_source}
        return self._ask("POST", "/v1/grade", body, wait)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None, wait: float = 0.0) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=wait + 30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            retry = error.headers.get("Retry-After", "")
            try:
                said = json.load(error)["error"]
            except (ValueError, KeyError, TypeError, OSError):
                said = {"kind": "bad_answer", "message": f"{self.url} answered {error.code} without a reason", "hint": ""}
            raise EndpointError(said["kind"], said["message"], retry or said["hint"], error.code) from None
        except (OSError, ValueError) as error:  # connections refused, broken, cut short
            raise EndpointError("unreachable", f"{self.url} could not be asked: {error}", "is `planish environment` running there?") from None
