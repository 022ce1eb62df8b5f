"""A child that makes twins of itself: what `planish.oracle` does, without PyTorch."""

import os
import signal
import sys
import threading
import time

from planish.twin import twin_beside
from planish.wire import Channel, serve

KEPT = [0]


def work(channel):
    def twin(params, fds):
        number = twin_beside(fds)
        if number == 0:
            work(Channel.of_fd(3))
        return {"pid": number}

    def count(params, fds):
        KEPT[0] += 1
        print("counted", KEPT[0], flush=True)
        return {"count": KEPT[0], "pid": os.getpid(), "parent": os.getppid(), "group": os.getpgid(0), "open": len(os.listdir("/proc/self/fd"))}

    def die(params, fds):
        os.kill(os.getpid(), signal.SIGSEGV)

    def thread(params, fds):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        return {}

    serve(channel, {"twin": twin, "count": count, "die": die, "thread": thread})
    sys.stdout.flush()
    os._exit(0)


work(Channel.of_fd(3))
