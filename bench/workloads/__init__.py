"""The work that windlass, a bare loop and its peers are all given, and how it is measured.

Standard library only, but for the floor and for windlass itself: peers import this from environments of their own.
"""
