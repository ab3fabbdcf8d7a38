"""What a development broker is told: server.properties and its log4j2 file, as text. Called by kafka.

Pure. Settings a drill needs otherwise (session time-outs, say) are passed as `extra` and win. Invariant: several heartbeats
to a broker's session.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.devkit.ports import LOOPBACK

LOG4J2 = """<Configuration status="ERROR">
  <Appenders>
    <File name="file" fileName="${sys:headrace.log}">
      <PatternLayout pattern="%d{ISO8601} %p %m (%c{1})%n"/>
    </File>
  </Appenders>
  <Loggers>
    <Logger name="kafka.server.KafkaConfig" level="WARN"/>
    <Logger name="org.apache.kafka.server.config" level="WARN"/>
    <Logger name="org.apache.kafka.clients" level="WARN"/>
    <Root level="INFO"><AppenderRef ref="file"/></Root>
  </Loggers>
</Configuration>
"""


@dataclass(frozen=True)
class NodeAddress:
    """One node's number, from 1, and its two ports on the loopback: for clients, and for the controllers."""

    node: int
    port: int
    controller_port: int


def server_properties(
    me: NodeAddress, cluster: Sequence[NodeAddress], data_folder: str, extra: Mapping[str, str]
) -> str:
    """The text of server.properties for node `me` of `cluster`."""
    voters = ",".join(f"{one.node}@{LOOPBACK}:{one.controller_port}" for one in cluster)
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(me.node),
        "listeners": f"PLAINTEXT://{LOOPBACK}:{me.port},CONTROLLER://{LOOPBACK}:{me.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{me.port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": voters,
        "log.dirs": data_folder,
        **_replication(len(cluster)),
        **SMALL,
        **_heartbeats(extra),
        **extra,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _heartbeats(extra: Mapping[str, str]) -> dict[str, str]:
    """A quarter of a session that isn't the stock 9 s. Two stock seconds apart, in a session of two or three, one that is a
    moment late has its broker fenced, and with a lone broker all leaders and coordinators are gone.
    """
    session_ms = extra.get("broker.session.timeout.ms")
    return {} if session_ms is None else {"broker.heartbeat.interval.ms": str(int(session_ms) // 4)}


def _replication(nodes: int) -> dict[str, str]:
    replicas, in_sync = str(min(3, nodes)), "2" if nodes >= 3 else "1"
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


SMALL: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    # The first use of groups and transactions creates these: with the stock 50 partitions it takes seconds.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
}
