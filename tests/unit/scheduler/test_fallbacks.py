"""Which requests of a pool go to its fallback, and which stay: two pools that say how they stand."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headrace.bus.messages import Place, message_of
from headrace.contracts.control import Freeze, Thaw
from headrace.contracts.lifecycle import Status
from headrace.contracts.policy import CeilingPolicy, TenantPolicy, policy_from
from headrace.contracts.topics import TopicKind
from headrace.scheduler.decisions.which_context_was_told import context_told
from headrace.scheduler.state.frozen import Hold
from tests.support.scheduler.pure import NAMES
from tests.support.scheduler.two_pools import AWAY, HOME, TENANT, ObedientWorker, TwoPools, policy_of_pools


def served_by_home(pools: TwoPools, runs_ms: int, **more: Any) -> ObedientWorker:
    worker = ObedientWorker(pools.world, HOME, runs_ms=runs_ms, **more)
    pools.workers.append(worker)
    return worker


def fallback_to_away(**conditions: Any) -> TwoPools:
    pools = TwoPools(policy=policy_of_pools(fallbacks=[{"pool": AWAY, **conditions}], context_length=500))
    pools.run(4_000)
    return pools


def test_what_waits_where_no_backend_is_goes_to_the_fallback_in_time() -> None:
    pools = fallback_to_away(wait_above="8s")
    submitted = [pools.submit() for _ in range(6)]
    pools.run(2_000)
    assert pools.results() == {}
    pools.settle()
    assert pools.wrong(submitted) == []
    assert set(pools.results()) == {record.id for record in submitted}


def test_a_long_queue_is_shared_with_the_fallback_and_its_head_stays() -> None:
    pools = fallback_to_away(wait_above="6s")
    served_by_home(pools, 1_000, limit=1)
    pools.run(1_500)
    submitted = [pools.submit() for _ in range(60)]
    pools.settle()
    assert pools.wrong(submitted) == []
    here, there = (sum(worker.ran.values()) for worker in reversed(pools.workers))
    assert here > 6
    assert there > 20


def test_what_is_too_long_goes_before_a_worker_gets_it() -> None:
    pools = fallback_to_away(too_long=True)
    home = served_by_home(pools, 100)
    pools.run(1_500)
    long, short = pools.submit(prompt_tokens=500), pools.submit(prompt_tokens=499)
    pools.settle()
    assert pools.wrong([long, short]) == []
    assert (home.ran[long.id], home.ran[short.id]) == (0, 1)
    assert pools.results() == {long.id: [Status.SUCCEEDED], short.id: [Status.SUCCEEDED]}


def test_a_tenant_that_wants_no_fallback_stays() -> None:
    document = policy_of_pools(fallbacks=[{"pool": AWAY, "wait_above": "1s"}])
    tenants = {"a": {"fallbacks": False, "default_tier": "batch"}}
    policy = msgspec.convert(
        msgspec.to_builtins(document) | {"tenants": tenants}, type(document), strict=False
    )
    pools = TwoPools(policy=policy)
    pools.run(4_000)
    record = pools.submit()
    pools.run(10_000)
    home = pools.owners[HOME].core
    assert home is not None
    assert home.state.tracked.get(record.id) is not None
    assert pools.results() == {}


def test_nobody_goes_to_a_pool_whose_owner_is_silent_or_that_has_no_backend() -> None:
    pools = TwoPools(policy=policy_of_pools(fallbacks=[{"pool": AWAY, "wait_above": "1s"}]))
    pools.workers = []
    pools.run(4_000)
    record = pools.submit()
    pools.run(8_000)
    home = pools.owners[HOME].core
    assert home is not None
    assert home.state.tracked.get(record.id) is not None
    said = [each for each in pools.log(TopicKind.QUEUE_STATE) if each.pool == AWAY]
    assert said[-1].limit == 0
    junk = message_of(home.state.setting.place(TopicKind.QUEUE_STATE), record, key=f"{AWAY}/batch".encode())
    assert junk.topic == NAMES.of(TopicKind.QUEUE_STATE)
    pools.world.append(junk)
    pools.run(500)
    assert home.state.out.stop is None


def test_fallbacks_that_the_operator_adds_hold_at_once() -> None:
    pools = TwoPools(policy=policy_of_pools())
    pools.run(4_000)
    record = pools.submit()
    pools.run(3_000)
    home = pools.owners[HOME].core
    assert home is not None
    policy = policy_of_pools(fallbacks=[{"pool": AWAY, "wait_above": "1s"}])
    home.adopt(policy)
    pools.settle()
    assert pools.results() == {record.id: [Status.SUCCEEDED]}


def test_a_request_whose_caller_wants_no_other_model_stays() -> None:
    pools = fallback_to_away(wait_above="1s")
    stays, goes_there = pools.submit(stays=True), pools.submit()
    pools.run(8_000)
    assert set(pools.results()) == {goes_there.id}
    home = pools.owners[HOME].core
    assert home is not None
    assert stays.id in home.state.tracked


def test_who_is_held_back_does_not_get_round_it_by_a_fallback() -> None:
    for ceilings in ((), (CeilingPolicy(requests=1, per=timedelta(hours=1)),)):
        pools = fallback_to_away(wait_above="1s")
        home = pools.owners[HOME].core
        assert home is not None
        if ceilings:
            policy = home.state.setting.policy
            tenants = {"a": TenantPolicy(ceilings=ceilings, default_tier="batch")}
            home.adopt(msgspec.structs.replace(policy, tenants=tenants))
            home.state.ceilings.charge("a", 1, home.state.now.boot_ms)
        else:
            home.state.queue.frozen.freeze(Hold(None, "a"))
        stays = pools.submit()
        pools.run(6_000)
        assert home.state.tracked.get(stays.id) is not None
        assert pools.results() == {}


def test_a_ceiling_of_the_pool_counts_as_waiting() -> None:
    pools = TwoPools(
        policy=policy_of_pools(
            fallbacks=[{"pool": AWAY, "wait_above": "20s"}], ceilings=[{"requests": 1, "per": "10m"}]
        )
    )
    home = served_by_home(pools, 100)
    pools.run(4_000)
    first = pools.submit()
    pools.run(2_000)
    assert home.ran[first.id] == 1
    second = pools.submit()
    pools.run(5_000)
    assert home.ran[second.id] == 0
    assert set(pools.results()) == {first.id, second.id}


def test_a_backends_refusal_says_what_is_too_long_from_then_on() -> None:
    pools = TwoPools(policy=policy_of_pools(fallbacks=[{"pool": AWAY, "too_long": True}]))
    pools.run(4_000)
    home = served_by_home(pools, 100)
    home.context_length = 4_096
    pools.run(1_500)
    first = pools.submit(prompt_tokens=5_000)
    pools.run(1_500)
    second, short = pools.submit(prompt_tokens=5_000), pools.submit(prompt_tokens=4_000)
    pools.settle()
    assert pools.results() == {
        first.id: [Status.FAILED], second.id: [Status.SUCCEEDED], short.id: [Status.SUCCEEDED],
    }  # fmt: skip
    assert (home.ran[second.id], home.ran[short.id]) == (0, 1)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens", 4096),
        ("The input (5000 tokens) is longer than the model's context length (8192 tokens).", 8192),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("The decoder prompt (length 9000) is longer than the maximum model length of 2048.", 2048),
        ("The prompt is too long: 5000 tokens.", None),
        ("", None),
    ],
)
def test_engines_say_their_context_in_their_own_words(message: str, told: int | None) -> None:
    assert context_told(message) == told


def order(pools: TwoPools, record: Freeze | Thaw) -> None:
    """An operator's word to the owner of `home`."""
    pools.world.append(message_of(Place(NAMES.of(TopicKind.CONTROL, pool=HOME), 0), record))


def test_what_is_too_long_and_was_frozen_goes_before_a_worker_gets_it() -> None:
    pools = fallback_to_away(wait_above="1s", too_long=True)
    home = served_by_home(pools, 100)
    order(pools, Freeze(tenant=TENANT))
    pools.run(500)
    submitted = [pools.submit(), pools.submit(prompt_tokens=500)]
    pools.run(8_000)
    assert sum(worker.ran.total() for worker in pools.workers) == 0
    order(pools, Thaw(tenant=TENANT))
    pools.settle()
    assert pools.wrong(submitted) == []
    assert home.ran[submitted[1].id] == 0


def test_a_ceiling_keeps_all_but_what_could_not_run_here_in_any_case() -> None:
    document = policy_of_pools(
        fallbacks=[{"pool": AWAY, "wait_above": "1s", "too_long": True}], context_length=500
    )
    tenants = {TENANT: {"ceilings": [{"requests": 1, "per": "30s"}], "default_tier": "batch"}}
    pools = TwoPools(policy=policy_from(msgspec.to_builtins(document) | {"tenants": tenants}))
    home = served_by_home(pools, 100)
    pools.run(4_000)
    submitted = [pools.submit() for _ in range(3)]
    pools.run(500)
    long = pools.submit(prompt_tokens=500)
    pools.settle(90_000)
    assert pools.wrong([*submitted, long]) == []
    assert [home.ran[each.id] for each in [*submitted, long]] == [1, 1, 1, 0]
