"""One file a case of what went wrong in other memory stores, and what must hold here instead."""
