"""Free TCP ports on the loopback, for servers that must be told their port before they start.

Called by everything in devkit that starts a server. Ports lie below the range from which the system numbers
outgoing connections: inside it, a client that reconnects to a killed server can be given that very port as
its own, connect to itself, and so keep the restarted server from binding it.
"""

import random
import socket
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"
LOWEST, HIGHEST = 20_000, 31_999
TRIES = 200


def is_free(port: int) -> bool:
    """Whether a server could bind `port` on the loopback now."""
    with socket.socket() as probe:
        # As servers do it: connections that are only fading out don't count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """`count` different ports that were free a moment ago; raises OSError when none can be found."""
    dice = random.SystemRandom()
    found: list[int] = []
    with ExitStack() as held:
        for _ in range(TRIES * count):
            if len(found) == count:
                return found
            listener = held.enter_context(socket.socket())
            try:
                listener.bind((LOOPBACK, port := dice.randint(LOWEST, HIGHEST)))
            except OSError:
                continue
            found.append(port)
    raise OSError(f"no {count} free ports between {LOWEST} and {HIGHEST}: end what listens there")


def free_port() -> int:
    """One port as `free_ports` finds them."""
    return free_ports(1)[0]
