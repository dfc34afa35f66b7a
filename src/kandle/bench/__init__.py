"""Speed and memory of training, Kandle beside other libraries; nothing else imports this."""

from kandle.bench._bench import Growth, Row, growth, measure
from kandle.bench._cases import BARS, CASES, GROWTH, MEMORY, Case, chosen
from kandle.bench._memory import Memory
from kandle.bench._memory import measure as memory
from kandle.bench._peers import PEERS, Peer, find

__all__ = [
    "BARS",
    "CASES",
    "GROWTH",
    "MEMORY",
    "PEERS",
    "Case",
    "Growth",
    "Memory",
    "Peer",
    "Row",
    "chosen",
    "find",
    "growth",
    "measure",
    "memory",
]
