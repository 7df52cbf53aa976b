"""Experiments of the kind consolidation: how much shorter a memory becomes, and what of the facts in it is left."""
