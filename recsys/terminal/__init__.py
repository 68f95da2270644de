"""Terminal output while a command runs."""
