"""Columns of tables: what all kinds of features and tasks share."""
