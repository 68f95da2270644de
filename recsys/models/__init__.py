"""Rankers and classifiers, and how they are built, trained and saved."""
