"""``python -m eval consolidate``: how much shorter a memory becomes, and what of the facts in it is left."""
