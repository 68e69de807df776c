"""`python -m windlass` is the `windlass` command."""

from windlass.cli.main import main

raise SystemExit(main())
