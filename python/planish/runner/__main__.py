"""`python -m planish.runner`: answers runner requests (docs/formats/wire.md) on descriptor 3 until it closes."""

from __future__ import annotations

import argparse
import faulthandler

from planish.importing import lasting
from planish.wire import Channel, die_with_parent, serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m planish.runner", description="The torch runner; started by planish.")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--compiles", action="store_true", help="what it will run is torch.compile's")
    options = parser.parse_args()
    faulthandler.enable()
    die_with_parent()
    with lasting():
        from planish import preload
        from planish.runner.service import Runner

        preload.for_task()
        if options.compiles:
            preload.for_compiling()
    runner = Runner(options.device)
    names = ("hello", "load", "load_module", "bind", "run", "time", "unbind", "unload", "program_ran", "kernelbench", "call", "wind")
    serve(Channel.of_fd(3), {name: getattr(runner, name) for name in names})


if __name__ == "__main__":
    main()
