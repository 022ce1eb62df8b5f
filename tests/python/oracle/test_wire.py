"""Messages and descriptors between processes."""

import os
import socket
import threading

import pytest
from planish.errors import PlanishError
from planish.wire import Answer, Channel, serve


def pair():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(a), Channel(b)


def test_many_descriptors_travel_with_their_message():
    left, right = pair()
    files = [os.memfd_create(str(i)) for i in range(70)]

    def child() -> None:
        serve(
            right,
            {
                "give": lambda params, fds: Answer({"n": len(files)}, files),
                "take": lambda params, fds: {"inodes": [os.fstat(fd).st_ino for fd in fds]},
                "fail": lambda params, fds: (_ for _ in ()).throw(PlanishError("kind", "what", "do")),
                "bug": lambda params, fds: {"x": 1 // 0},
            },
        )

    thread = threading.Thread(target=child, daemon=True)
    thread.start()
    result = left.request(1, "give", {})
    fds = left.take_fds(result["_fds"])
    assert [os.fstat(fd).st_ino for fd in fds] == [os.fstat(f).st_ino for f in files]
    sent = left.request(2, "take", {}, fds[:3])
    assert sent["inodes"] == [os.fstat(fd).st_ino for fd in fds[:3]]
    with pytest.raises(PlanishError) as caught:
        left.request(3, "fail", {})
    assert (caught.value.kind, caught.value.message, caught.value.hint) == ("kind", "what", "do")
    with pytest.raises(PlanishError, match="ZeroDivisionError"):
        left.request(4, "bug", {})
    with pytest.raises(PlanishError, match="unknown method"):
        left.request(5, "nothing", {})
    left.close()
    thread.join(5)
    assert not thread.is_alive()
