"""The decision whether a new model takes over from an old one."""
