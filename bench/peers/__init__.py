"""The same workloads on other runtimes for agents, each in an environment of its own: `make bench-peers`."""
