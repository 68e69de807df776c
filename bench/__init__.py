"""What windlass costs, measured: ratios in one run, with the bar beside each.

Law 1. A figure in µs is of this machine and this minute; a ratio is of two things measured in turn in
    one run. Gates are on counts (tests/perf), never on time.
Law 2. What is not measured is built outside the timed section.
"""
