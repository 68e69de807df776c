"""windlass as a process of its own, beside its peers."""

from __future__ import annotations

from bench.workloads.child import main
from bench.workloads.windlass_turns import WindlassTurns

if __name__ == "__main__":
    main(WindlassTurns)
