"""Whatever comes in: stored or refused by name, never a traceback, never half done.

``kinds.py`` says what is tried and what must hold, in stores of each sort (``worlds.py``); ``guarded.py`` the same of
sealed exports, master keys, sharing, the audit trail and receipts; ``corpus.py`` keeps what has been found.
``test_fuzz.py`` tries some examples that are always the same, and ``python -m tests.fuzz --minutes 10 --seed 1`` as
many new ones as the time allows.
"""
