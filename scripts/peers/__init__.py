"""The parts of compare_peers.py: what is installed, how it is run, what the figures say, and how they are shown."""
