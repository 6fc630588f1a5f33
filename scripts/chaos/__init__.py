"""Jobs with injected faults: drawing them, running them, judging how they ended. See scripts/chaos.py."""
