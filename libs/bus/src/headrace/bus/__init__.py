"""The bus: the only place that speaks Kafka. Produce, consume, fenced state, our own pause set, dead letters.

Services take the ports of `headrace.bus.ports`; `headrace.bus.kafka` and `headrace.bus.memory` implement them under one
contract suite (tests/contract/bus).
"""
