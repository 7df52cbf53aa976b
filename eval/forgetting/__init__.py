"""``python -m eval forgetting``: what a policy forgets of a life that goes on, and what of it is needed afterwards."""
