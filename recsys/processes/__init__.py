"""Child processes: trainings of their own, which end with their starter."""
