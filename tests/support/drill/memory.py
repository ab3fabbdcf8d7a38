"""Samples the resident memory of each service's processes, and tells the slope of each. Called by the drill.

A killed process begins anew; so the slope is of the longest life of each process, by least squares, without its first three
minutes: a gateway takes two until its heap, connections and caches have their size. What is kept for a quarter of an hour, as
ids that have finished are, grows for that long: so the last ten minutes have a slope of their own, and the course is told.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

import psutil

from headrace.cli.stack.service import ServiceProcess

WARM_UP_S, LEAST_S, LAST_S = 180.0, 300.0, 600.0
PARTS = 6
MIB = 1024 * 1024


class Memory:
    """Samples by service and process id: (seconds since the first sample of that process, MiB)."""

    def __init__(self) -> None:
        self._lives: defaultdict[str, dict[int, list[tuple[float, float]]]] = defaultdict(dict)
        self._began: dict[int, float] = {}

    def sample(self, services: Mapping[str, ServiceProcess]) -> None:
        """Takes one sample of each that lives."""
        for name, service in services.items():
            with suppress(psutil.Error):
                rss = psutil.Process(service.pid).memory_info().rss / MIB
                began = self._began.setdefault(service.pid, time.monotonic())
                self._lives[name].setdefault(service.pid, []).append((time.monotonic() - began, rss))

    def told(self) -> list[str]:
        """A line for each service."""
        return [
            f"{name}: {_life(max(lives.values(), key=len))}" for name, lives in sorted(self._lives.items())
        ]


def _life(samples: list[tuple[float, float]]) -> str:
    age_s = samples[-1][0]
    last = f"{samples[-1][1]:.0f} MiB after {age_s:.0f} s"
    steady = [(at_s, mib) for at_s, mib in samples if at_s >= WARM_UP_S]
    if age_s < LEAST_S or len(steady) < 3:
        return f"{last}, too short a life for a slope"
    lately = [(at_s, mib) for at_s, mib in steady if at_s >= age_s - LAST_S]
    course = [f"{steady[len(steady) * part // PARTS][1]:.0f}" for part in range(PARTS)]
    return (
        f"{last}, slope {slope(steady) * 60:+.2f} MiB a minute, {slope(lately) * 60:+.2f} in the last ten minutes; "
        f"before: {' '.join(course)}"
    )


def slope(samples: list[tuple[float, float]]) -> float:
    """Of least squares, MiB a second."""
    count = len(samples)
    mean_x, mean_y = (sum(each[n] for each in samples) / count for n in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in samples)
    return sum((x - mean_x) * (y - mean_y) for x, y in samples) / spread if spread else 0.0
