from collections.abc import Mapping

from headrace.devkit.kafka_settings import NodeAddress, server_properties

SESSION, HEARTBEAT = "broker.session.timeout.ms", "broker.heartbeat.interval.ms"


def told(extra: Mapping[str, str]) -> dict[str, str]:
    me = NodeAddress(1, 1, 2)
    lines = server_properties(me, [me], "data", extra).splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_a_session_that_is_not_stock_has_several_heartbeats() -> None:
    assert HEARTBEAT not in told({})
    settings = told({SESSION: "2000"})
    assert (settings[SESSION], settings[HEARTBEAT]) == ("2000", "500")
    assert told({SESSION: "2000", HEARTBEAT: "900"})[HEARTBEAT] == "900"
