"""Experiments of the kind forgetting: what goes of a life that goes on, and what of it is needed afterwards."""
