"""The parts of compare_peers.py: detection of peers, runs, statistics, goals and the report."""
