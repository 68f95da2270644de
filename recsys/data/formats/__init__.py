"""File formats: what is in a file, checked, whatever it means."""
