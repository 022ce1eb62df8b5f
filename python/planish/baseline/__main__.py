"""`python -m planish.baseline`: answers baseline requests (docs/formats/wire.md) on descriptor 3 until it closes."""

from __future__ import annotations

import argparse
import faulthandler

from planish.importing import lasting
from planish.wire import Channel, die_with_parent, serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m planish.baseline", description="Times the baselines; started by planish.")
    parser.add_argument("--compiles", action="store_true", help="modes of torch.compile will be asked for")
    options = parser.parse_args()
    faulthandler.enable()
    die_with_parent()
    with lasting():
        from planish import preload
        from planish.baseline.service import Baseline

        preload.for_task()
        if options.compiles:
            preload.for_compiling()
    baseline = Baseline()
    serve(Channel.of_fd(3), {"hello": baseline.hello, "open": baseline.open, "add": baseline.add, "time": baseline.time})


if __name__ == "__main__":
    main()
