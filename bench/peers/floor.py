"""The floor as a process of its own, beside which each peer is measured."""

from __future__ import annotations

from bench.workloads.child import main
from bench.workloads.floor import Floor

if __name__ == "__main__":
    main(Floor)
