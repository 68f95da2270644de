"""Adaptive weights of the tasks' losses, one method a file, by name.

A method sees the loss of each task in a step, times its fixed weight, and
where it asks for them the products of their gradients. It returns a weight for
each of them, and the step follows the gradient of the weighted sum.
"""
