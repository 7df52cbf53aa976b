"""Nearest neighbours. Everything here can be deleted and is rebuilt from the store. Importing this loads no Chroma."""

from hybridmem.index.chroma import ChromaIndex, collection_name
from hybridmem.index.exact import ExactIndex, cosine, top_k
from hybridmem.index.health import check_structure, healthy, move_aside, opens_in_child
from hybridmem.index.owner import OwnerLock

__all__ = [
    "ChromaIndex",
    "ExactIndex",
    "OwnerLock",
    "check_structure",
    "collection_name",
    "cosine",
    "healthy",
    "move_aside",
    "opens_in_child",
    "top_k",
]
