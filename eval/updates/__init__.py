"""Experiments of the kind updates: of two memories of one thing, does the one that holds come first?"""
