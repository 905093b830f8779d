"""``python -m topocheck``."""

from topocheck.cli import main

main()
