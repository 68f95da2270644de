"""The fields of a configuration: names, defaults, choices, checks, help."""
