"""A run and a picture for each guarantee of docs/scheduling.md, and whether the run kept it.

    make pictures     or: python -m tests.benchmarks.guarantees FOLDER [NAME ...]

The product's own core in virtual time, one backend, lengths of tests/data/traces/azure2023_conv.csv. Exit status 1 when a
guarantee wasn't kept. The machine's speed is in none of it, so the same code draws the same bytes.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.cli.charts import Line, Panel
from headrace.scheduler.decisions.pick_next import most_in_flight, tier_shares
from headrace.scheduler.simulate.backend import BackendModel
from tests.benchmarks.saying import say
from tests.benchmarks.shown_changes import owners, policies
from tests.benchmarks.shown_runs import (
    MODEL,
    THOUSAND,
    TIME,
    Points,
    Shown,
    asked,
    by_tokens,
    on_time,
    over_time,
    p95_of,
    policy,
    service_of,
    shown,
    told,
    waits_of,
)
from tests.support.entry import one_of, parser_of
from tests.support.scheduler.sources import Source, sent
from tests.support.scheduler.watched import Look, watched

SMALL = BackendModel(8)
SLACK_MS = (5_000, 30_000)
P95 = "95 % wait no longer than (seconds)"
LONGER = 64


def weights(seconds: int = 600) -> Shown:
    """Atlas has twice the weight; birch and cedar have 1, and cedar pauses."""
    names, back_s = ("atlas", "birch", "cedar"), seconds // 2
    sources = [
        Source("atlas", 1.2),
        Source("birch", 0.8),
        Source("cedar", 0.3, pause_s=(seconds // 5, back_s)),
    ]
    rules = policy({"atlas": {"weight": 2}, "birch": {}, "cedar": {}})
    run = watched(sent(sources, MODEL, seconds), rules, MODEL)
    begin, end = run.looks[back_s + seconds // 20], run.looks[-1]
    atlas, birch, cedar = (end.of_tenant(name) - begin.of_tenant(name) for name in names)
    lines = [Line(name, over_time(run, service_of(name)), number) for number, name in enumerate(names)]
    bound = run.gap_bound
    return shown(
        "Service by tenant: atlas has twice the weight, cedar pauses",
        Panel(TIME, "service so far (thousand units)", lines=lines),
        (
            run.figures.gap <= bound,
            f"over weight at most {told(run.figures.gap, run)} apart; G is {told(bound, run)}, B {told(run.lag_bound, run)}",
        ),
        (abs(atlas / 2 - birch) <= bound, f"atlas got {atlas / birch:.2f} times what birch got"),
        (abs(cedar - birch) <= bound, f"after its pause cedar got {cedar / birch:.2f} times what birch got"),
    )  # fmt: skip


def floor(seconds: int = 2_400) -> Shown:
    """Interactive and standard work for twice what the slots can do, and batch work beside it."""
    sources = [Source("atlas", 1.2, "interactive"), Source("birch", 0.8), Source("cedar", 0.3, "batch")]
    jobs, rules = sent(sources, SMALL, seconds), policy({"atlas": {}, "birch": {}, "cedar": {}})
    run, strict = (watched(jobs, rules, SMALL, name) for name in ("headrace", "strict"))
    share = tier_shares(rules.tiers)["batch"]
    behind = run.floor_bound(share, len(rules.tiers))

    def promised(look: Look) -> float:
        return max(0.0, float(share * look.work - behind))

    lines = [
        Line("batch, headrace", over_time(run, lambda look: look.of_tier("batch") / THOUSAND), 1),
        Line("its share", over_time(run, lambda look: float(share * look.work) / THOUSAND), 2),
        Line("promise", over_time(run, lambda look: promised(look) / THOUSAND), 1, limit=True),
        Line("batch, strict", over_time(strict, lambda look: look.of_tier("batch") / THOUSAND), 0),
    ]
    got = run.looks[-1].of_tier("batch") / run.looks[-1].work
    return shown(
        "Work of the batch tier while the other tiers ask for twice the capacity",
        Panel(TIME, "work so far (thousand units)", lines=lines),
        (
            all(look.of_tier("batch") >= promised(look) for look in run.looks),
            f"batch was never more than {told(behind, run)} behind its share",
        ),
        (got >= 0.9 * share, f"at the end it had {100 * got:.2f} % of all work; its share is {100 * float(share):.2f} %"),
    )  # fmt: skip


def slots(seconds: int = 600) -> Shown:
    """Eight tenants alike, of which one asks for four times the capacity in answers that are 64 times as long."""
    others = [f"tenant-{number}" for number in range(1, 8)]
    sources = [Source("long", 4.0, longer=LONGER), *(Source(name, 0.3) for name in others)]
    jobs, rules = sent(sources, MODEL, seconds), policy({"long": {}, **{name: {} for name in others}})
    run, fifo = (watched(jobs, rules, MODEL, name) for name in ("headrace", "fifo"))
    limit = most_in_flight(1, 1 + len(others), MODEL.slots)
    lines = [
        Line("fifo", over_time(fifo, lambda look: look.slots.get("long", 0)), 0),
        Line("headrace", over_time(run, lambda look: look.slots.get("long", 0)), 1),
        Line("limit", [(0, limit), (seconds / 60, limit)], 1, limit=True),
    ]
    whole = [look for look in run.looks if all(look.waiting.get(name) for name in others)]
    most = max(look.slots.get("long", 0) for look in whole)
    return shown(
        "Slots of the tenant whose answers are 64 times as long, of eight tenants",
        Panel(TIME, "slots", lines=lines, least_top=MODEL.slots),
        (most <= limit, f"it had at most {most} of {MODEL.slots} slots in {len(whole)} s in which all waited; limit {limit}"),
    )  # fmt: skip


def ceiling(seconds: int = 600) -> Shown:
    """Birch has a ceiling of 30,000 tokens a minute and asks for several times as much; atlas and cedar have none."""
    a_minute, at_once = 30_000, 5_000
    rules = policy(
        {"atlas": {}, "birch": {"ceilings": [{"tokens": a_minute, "at_once": at_once}]}, "cedar": {}}
    )
    sources = [Source("atlas", 0.6), Source("birch", 1.0), Source("cedar", 0.6)]
    jobs = sent(sources, SMALL, seconds)
    run = watched(jobs, by_tokens(rules), SMALL)
    lines = [
        Line("asked for", asked(jobs, seconds, "birch"), 0),
        Line("given", over_time(run, service_of("birch")), 1),
        Line(
            "ceiling",
            [(at / 60, (at_once + a_minute * at / 60) / 1_000) for at in (0, seconds)],
            1,
            limit=True,
        ),
    ]
    given = [look.of_tenant("birch") / 10**6 for look in run.looks]
    over = max(got - at_once - a_minute * at / 60 for at, got in enumerate(given))
    most, busy = max(job.input_tokens + job.output_tokens for job in jobs), run.figures.busy
    return shown(
        "Tokens of a tenant with a ceiling of 30,000 a minute",
        Panel(TIME, "tokens so far (thousand)", lines=lines),
        (over < most, f"birch was never more than {max(0, over):,.0f} tokens over its ceiling; a request has up to {most:,}"),
        (busy > 0.97, f"the others had the rest: {100 * busy:.1f} % of the slots were busy"),
    )  # fmt: skip


def users(seconds: int = 600) -> Shown:
    """Of atlas one user sends 20 times as much as each of four others; birch sends as much as all of them."""
    names, quiet = ("loud", "user 1", "user 2", "user 3", "user 4"), 0.05
    sources = [Source("atlas", quiet if name != "loud" else 20 * quiet, user=name) for name in names]
    jobs, rules = (
        sent([*sources, Source("birch", 24 * quiet)], MODEL, seconds),
        policy({"atlas": {}, "birch": {}}),
    )
    told_apart = [job.user for job in jobs]
    run = watched(jobs, rules, MODEL)
    for job in jobs:
        job.user = None
    without = watched(jobs, rules, MODEL)
    waits = {
        label: [
            p95_of(each, [user == name for user in told_apart]) / 1_000
            for name in names
        ]
        for label, each in (("without keys", without), ("with keys", run))
    }  # fmt: skip
    shares = [each.looks[-1].of_tenant("birch") / each.looks[-1].work for each in (without, run)]
    most, least = max(waits["with keys"][1:]), min(waits["without keys"][1:])
    return shown(
        "Wait by end user of one tenant, of whom one floods",
        Panel("end user", P95, bars=waits, places=names),
        (most < least / 10, f"p95 wait of the four: at most {most:.1f} s with keys, at least {least:.1f} s without"),
        (abs(shares[0] - shares[1]) < 0.01, f"birch had {shares[1]:.3f} of all service with keys, {shares[0]:.3f} without"),
    )  # fmt: skip


def priorities(seconds: int = 600) -> Shown:
    """One tenant asks for twice the capacity, in three priorities."""
    sources = [Source("atlas", 0.3, priority=2), Source("atlas", 0.4, priority=1), Source("atlas", 1.3)]
    jobs, rules = sent(sources, MODEL, seconds), policy({"atlas": {}})
    runs = {name: watched(jobs, rules, MODEL, name) for name in ("fifo", "headrace")}
    waits = {
        name: [p95_of(run, [job.priority == number for job in jobs]) / 1_000 for number in (2, 1, 0)]
        for name, run in runs.items()
    }
    ours = waits["headrace"]
    return shown(
        "Wait by priority inside one tenant",
        Panel("priority", P95, bars=waits, places=["2", "1", "0"]),
        (
            ours[1] < ours[2] / 10,
            "p95 wait by priority 2, 1, 0: " + ", ".join(f"{each:.1f} s" for each in ours),
        ),
    )


def overload(requests: int = 2_000, loads: Sequence[float] = (0.8, 1.0, 1.2, 1.5, 2.0, 2.5)) -> Shown:
    """Up to 2.5 times what the slots can do, all with deadlines 5 to 30 s later than at once."""
    found: dict[str, Points] = {name: [] for name in ("fifo", "edf", "fifo-drop", "headrace")}
    for load in loads:
        sources = [Source(f"tenant-{number}", load / 10, slack_ms=SLACK_MS) for number in range(10)]
        jobs = sent(sources, MODEL, round(requests / load / 6))
        for name, points in found.items():
            run = watched(jobs, policy({}), MODEL, name, drain_ms=60_000)
            points.append((load, 100 * run.figures.goodput))
    lines = [Line(name, points, look) for look, (name, points) in enumerate(found.items())]
    ours = [share for load, share in found["headrace"] if load >= 1.2]
    return shown(
        "Goodput: slot time that went into what was in time",
        Panel("asked for (times the capacity)", "goodput (% of capacity)", lines=lines, least_top=100),
        (
            min(ours) >= 90,
            f"goodput at 1.2 times the capacity and above: {min(ours):.1f} to {max(ours):.1f} %",
        ),
    )


def flood(seconds: int = 300) -> Shown:
    """One tenant asks for 1.6 times what the slots can do, seven others for 0.4 together; all have deadlines."""
    names = ["flood", *(f"tenant-{number}" for number in range(1, 8))]
    sources = [Source(name, 1.6 if name == "flood" else 0.4 / 7, slack_ms=SLACK_MS) for name in names]
    jobs, rules = sent(sources, MODEL, seconds), policy({name: {} for name in names})
    shares: dict[str, list[float]] = {}
    for contender in ("fifo", "fifo-drop", "headrace"):
        run = watched(jobs, rules, MODEL, contender, drain_ms=60_000)
        shares[contender] = [on_time(run, name) for name in names]
    least = min(shares["headrace"][1:])
    return shown(
        "On time by tenant, of whom one floods",
        Panel("tenant", "on time (%)", bars=shares, places=names, least_top=100),
        (least >= 97, f"of each other tenant's requests {least:.1f} % or more on time"),
    )


def headroom(seconds: int = 900) -> Shown:
    """Interactive requests for 30 % of the slots, beside batch answers 64 times as long for more than all of them."""
    sources = [Source("atlas", 0.3, "interactive"), Source("birch", 1.5, "batch", longer=LONGER)]
    jobs = sent(sources, MODEL, seconds)
    plain = {
        name: {"weight": weight, "floor_percent": 10, "queue_timeout": "24h"}
        for name, weight in (("interactive", 16), ("batch", 1))
    }
    runs = {
        "fifo": watched(jobs, policy({}), MODEL, "fifo", drain_ms=2_000 * seconds),
        "no headroom": watched(jobs, policy({}, tiers=plain), MODEL, drain_ms=300_000),
        "headrace": watched(jobs, policy({}), MODEL),
    }
    lines = [Line(name, waits_of(run, "interactive"), look) for look, (name, run) in enumerate(runs.items())]
    urgent = [job for job in jobs if job.tier == "interactive"]
    wait = p95_of(runs["headrace"], [job.tier == "interactive" for job in jobs])
    alone = p95_of(watched(urgent, policy({}), MODEL), [True for _ in urgent])
    return shown(
        "Interactive requests beside slots full of long batch answers",
        Panel("time of arrival (minutes)", P95, lines=lines),
        (wait <= 1.2 * max(250, alone), f"p95 wait {wait} ms, {alone} ms without batch work"),
    )


SCENES: dict[str, Callable[[], Shown]] = {
    "weights": weights, "floor": floor, "slots": slots, "ceiling": ceiling, "users": users,
    "priorities": priorities, "overload": overload, "flood": flood, "headroom": headroom, "owners": owners,
    "policies": policies,
}  # fmt: skip


def main() -> int:
    """Draws them, and prints what was kept; 1 when something wasn't."""
    parser, broken = parser_of(__spec__, __doc__), 0
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument(
        "names", nargs="*", type=one_of(SCENES), metavar="NAME", help=f"of {', '.join(SCENES)}; default: all"
    )
    given = parser.parse_args()
    for name in given.names or SCENES:
        scene = SCENES[name]()
        (given.folder / f"{name}.svg").write_text(scene.svg, encoding="utf-8")
        say(f"{name}: {SCENES[name].__doc__}")
        for kept, sentence in scene.judged:
            say(f"  {'kept  ' if kept else 'BROKEN'}  {sentence}")
            broken += not kept
    return min(1, broken)


if __name__ == "__main__":
    sys.exit(main())
