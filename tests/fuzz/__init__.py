"""Whatever comes in: stored or refused by name, never a traceback, never half done.

``kinds.py`` says what is tried and what must hold, ``corpus.py`` keeps what has been found, ``test_fuzz.py`` tries a
few hundred examples that are always the same, and ``python -m tests.fuzz --minutes 10 --seed 1`` as many new ones as
the time allows.
"""
