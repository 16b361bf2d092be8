"""Threads that take their turns as a seed says."""
