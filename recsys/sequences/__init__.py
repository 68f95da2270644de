"""A tower that reads a user's history in its order.

B rows of a batch, T positions of a history, D numbers of a vector, H heads of
attention, N items of the catalogue.
"""
