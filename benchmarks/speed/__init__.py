"""Speed and memory of training, Kandle beside other libraries: what `peers.py` prints."""

from speed._cases import BARS, CASES, GROWTH, MEMORY, Case, chosen
from speed._measure import Growth, Row, growth, measure
from speed._memory import Memory
from speed._memory import measure as memory
from speed._peers import PEERS, Peer, find

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
