"""``python -m eval durability``: agents at work in real processes, killed over and over, and what is left looked at.

schedule says who is killed when; server forks the processes; agent is what they do, along trajectories; each notes in
a journal outside the store what it is about to do and what was acknowledged. After each round of kills check reads the
store in a fresh process, and verdict holds that against expected, a plain dict. run is all of it; sheets prints it.
"""

from __future__ import annotations
