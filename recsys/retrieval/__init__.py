"""Retrieval: the few items of a catalogue that are worth ranking.

B rows of a batch, N items of the catalogue, D numbers of a vector.
"""
