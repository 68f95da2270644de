import subprocess


def is_running(word: str) -> bool:
    """Whether any process has the word in its command line."""
    ps = ["ps", "-A", "-ww", "-o", "args="]
    listed = subprocess.run(ps, capture_output=True, text=True, check=True)
    return any(word in line.split() for line in listed.stdout.splitlines())
