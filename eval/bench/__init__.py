"""The benchmark of hybridmem: how long add, index, search, context and open take, and what of it was promised.

Stores of planted vectors, no model; every time stands beside what one would use instead, measured in the same run and
in turns. Run it as ``python -m eval bench``. The parts, each imported only from those before it:

planted    a made history of any size: texts, vectors, questions, and the embedder that knows them; from a seed
timing     milliseconds, and their median
rivals     Chroma's filtered query, exact numpy, a bare INSERT
stores     builds the stores, and keeps them for the next run
searching  search and context, and whether what they return is right
writing    add, and the search after it
child      open and resident memory, in a process of its own
opening    starts those, and opens in this process
profiles   which functions the time goes to
run        everything for every size; the promises; one JSON document
sheets     its tables
"""
