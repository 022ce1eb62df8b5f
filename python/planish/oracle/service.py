"""The oracle's methods (docs/formats/wire.md): one task, its regions and data sets. One thread."""

from __future__ import annotations

import errno
import gc
import os
import platform
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from planish import rt
from planish.capture.reads import watch_reads
from planish.errors import PlanishError
from planish.oracle import memory
from planish.oracle.data import DataSet
from planish.oracle.dsls import importable
from planish.oracle.gate import Accuracy
from planish.oracle.mutation_check import mutation_check
from planish.oracle.region import WHOLE, Region
from planish.oracle.task import Task
from planish.wire import Answer, Handler

#: What may be asked for again where memory ran out in it: it leaves nothing behind, or makes it anew.
_AGAIN = frozenset(("make", "refresh", "check", "repeat", "other_mode", "mutation_check", "regimes"))


class Service:
    """Holds the session's state. Every method takes the params of its message; PlanishError is the answer to a bad one."""

    def __init__(self) -> None:
        self.asked = False  # for anything but hello
        self.device = torch.device("cpu")
        self.task: Task | None = None
        self.accuracy = Accuracy("eager")
        self.regions: dict[str, Region] = {}
        self.data: dict[str, DataSet] = {}

    def handlers(self) -> dict[str, Handler]:
        methods = ("hello", "open", "region", "make", "refresh", "poison", "check", "repeat", "other_mode", "mutation_check", "regimes", "drop")
        return {name: self._handler(name) for name in methods}

    def _handler(self, name: str) -> Handler:
        method = getattr(self, name)
        if name in _AGAIN:
            method = self._once_more(method)

        def handle(params: dict[str, Any], fds: list[int]) -> Any:
            self.asked = self.asked or name != "hello"
            try:
                return method(params)
            except PlanishError:
                raise
            except KeyError as error:
                if error.args and isinstance(error.args[0], str) and error.args[0] not in params and _is_ours(error):
                    raise PlanishError("bad_message", f"{name} needs {error.args[0]!r}") from error
                raise
            except OSError as error:
                raise disk_error(error) from error
            except Exception as error:
                if memory.is_exhausted(error):
                    if self.task is not None:
                        self.task.forget()
                    raise memory.out_of_memory(f"the reference (in {name})", error) from error
                raise
            finally:
                _let_go_of_frames(sys.exc_info()[1])
                memory.give_back(self.device)

        return handle

    def _once_more(self, method: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
        """The method, asked again where memory ran out in it and is there now."""

        def attempt(params: dict[str, Any]) -> Any:
            try:
                return method(params)
            except Exception as error:
                if not memory.is_exhausted(error) or not self._got_room_after(error):
                    raise
            return method(params)

        return attempt

    def _got_room_after(self, error: Exception) -> bool:
        """Waits for what memory was too small for, where others hold enough of the device. What is kept here goes first, so that it is needed again."""
        task = self.task
        if task is None or self.device.type != "cuda":
            return False
        before = torch.cuda.memory_allocated(self.device)
        _let_go_of_frames(error)
        task.forget()
        memory.give_all_back(self.device)
        need = memory.asked(error) + max(0, before - torch.cuda.memory_allocated(self.device))
        return task.wait_for_others(need)

    def hello(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params["device"]
        if wanted == "cuda":
            if not torch.cuda.is_available():
                raise PlanishError("no_device", "torch sees no CUDA device", "use --target cpu, or install a CUDA build of torch")
            self.device = torch.device("cuda", 0)
            torch.cuda.init()
        elif wanted == "cpu":
            self.device = torch.device("cpu")
        else:
            raise PlanishError("bad_message", f"unknown device {wanted!r}")
        info = rt.device_info(str(self.device))
        return {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "dsls": importable(),
            "device": {"kind": wanted, "name": info["name"], "memory": info["memory_bytes"], "arch": info["arch"], "uuid": info["uuid"]},
        }

    def open(self, params: dict[str, Any]) -> dict[str, Any]:
        try:
            self.accuracy = Accuracy.parse(params.get("accuracy", "eager"))
        except (TypeError, ValueError) as error:
            hint = "accuracy is eager, permitted, tf32 or a positive tolerance"
            raise PlanishError("bad_accuracy", f"accuracy {params.get('accuracy')!r}: {error}", hint) from error
        self._close()
        with watch_reads() as files:
            self.task = task = Task(params["task"], self.device, params["blobs"], int(params.get("variant", 0)))
        outputs = [o["value"] for o in task.graph["outputs"] if "value" in o]
        self.regions[WHOLE] = Region(task, WHOLE, range(len(task.graph["nodes"])), task.inputs, outputs, self.accuracy)
        facts = {
            "name": task.loaded.name,
            "source_sha256": task.loaded.source_sha256,
            "parameters": task.parameters,
            "input_bytes": task.input_bytes,
            "variants": task.loaded.variants,
            "files": sorted(path for path in files if not path.startswith(str(Path(params["blobs"]).resolve()) + os.sep)),
        }
        return {"graph": task.graph, "task": facts}

    def region(self, params: dict[str, Any]) -> dict[str, Any]:
        name = params["region"]
        if name == WHOLE:
            raise PlanishError("bad_message", "region task exists already")
        self.regions[name] = Region(self._opened(), name, params["nodes"], params["inputs"], params["outputs"], self.accuracy)
        return {}

    def make(self, params: dict[str, Any]) -> dict[str, Any] | Answer:
        name, region = params["data"], self._region(params)
        self._drop(name)
        try:
            data = region.create(int(params["seed"]), params.get("regime", "task"), params.get("own_parameters", False))
        except PlanishError as error:
            if error.kind == "skipped":
                return {"skipped": error.message}
            raise
        self.data[name] = data
        return Answer({"buffers": data.descriptions()}, data.fds())

    def refresh(self, params: dict[str, Any]) -> dict[str, Any]:
        data = self._data(params)
        try:
            self.regions[data.region].fill(data, int(params["seed"]), params.get("regime", "task"))
        except PlanishError as error:
            if error.kind == "skipped":
                return {"skipped": error.message}
            raise
        return {}

    def poison(self, params: dict[str, Any]) -> dict[str, Any]:
        self._data(params).poison()
        return {}

    def check(self, params: dict[str, Any]) -> dict[str, Any]:
        data = self._data(params)
        result = self.regions[data.region].check(data, params.get("stage", "screen"))
        if params.get("digest", False):
            result["digest"] = data.output_digest()
        return result

    def repeat(self, params: dict[str, Any]) -> dict[str, Any]:
        """Whether eager, run twice more on this data, gives the same bits."""
        data = self._data(params)
        return {"same": self.regions[data.region].repeats(data)}

    def other_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        """Whether the task's own model gives the same on this data in its other mode."""
        data = self._data(params)
        return {"same": self.regions[data.region].answers_in_other_mode(data)}

    def mutation_check(self, params: dict[str, Any]) -> dict[str, Any]:
        return mutation_check(self._region(params))

    def regimes(self, params: dict[str, Any]) -> dict[str, Any]:
        found, skipped = self._region(params).regimes()
        return {"regimes": found, "skipped": skipped}

    def drop(self, params: dict[str, Any]) -> dict[str, Any]:
        self._drop(params["data"])
        return {}

    def _drop(self, name: str) -> None:
        data = self.data.pop(name, None)
        if data is not None:
            data.free()
            if not any(other.region == data.region for other in self.data.values()):
                self.regions[data.region].forget()  # expectations are larger than the data: they go with the last of them
                if self.data:
                    memory.give_back(self.device)
                else:  # another oracle, or the baselines, may have the device next
                    memory.give_all_back(self.device)

    def _close(self) -> None:
        for name in list(self.data):
            self._drop(name)
        self.regions.clear()
        self.task = None
        gc.collect()  # a captured program is a cycle, and holds the model

    def _opened(self) -> Task:
        if self.task is None:
            raise PlanishError("bad_message", "no task is open")
        return self.task

    def _region(self, params: dict[str, Any]) -> Region:
        self._opened()
        name = params.get("region", WHOLE)
        if name not in self.regions:
            raise PlanishError("bad_message", f"there is no region {name!r}")
        return self.regions[name]

    def _data(self, params: dict[str, Any]) -> DataSet:
        name = params["data"]
        if name not in self.data:
            raise PlanishError("bad_message", f"there is no data set {name!r}")
        return self.data[name]


def _let_go_of_frames(error: BaseException | None) -> None:
    """What the frames of an error hold, and those of all that it came of, would stay the device's as long as the error does."""
    seen: set[int] = set()
    todo = [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)
        todo += [one.__cause__, one.__context__]


def disk_error(error: OSError) -> PlanishError | OSError:
    """What keeps the oracle from writing its blobs, under the kinds of src/base/file.cpp; any other error as it is."""
    kinds = {
        errno.ENOSPC: ("disk_full", "free some space, or choose another cache with PLANISH_CACHE"),
        errno.EDQUOT: ("disk_full", "free some space, or choose another cache with PLANISH_CACHE"),
        errno.EROFS: ("read_only", "choose another cache with PLANISH_CACHE"),
        errno.EACCES: ("permission_denied", "check its owner and mode, or choose another cache with PLANISH_CACHE"),
        errno.EPERM: ("permission_denied", "check its owner and mode, or choose another cache with PLANISH_CACHE"),
    }
    if error.errno not in kinds:
        return error
    kind, hint = kinds[error.errno]
    return PlanishError(kind, f"cannot write {error.filename or 'a file'}: {error.strerror}", hint)


def _is_ours(error: KeyError) -> bool:
    """Raised by a method of Service itself (a missing parameter), not by something that it calls."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename == __file__
