"""Draws jobs with injected faults, runs them, and checks how they end. See scripts/chaos.py."""
