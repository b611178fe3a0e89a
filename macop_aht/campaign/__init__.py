"""Campaigns: many runs and their evaluation by one command that can be killed at any moment and given again."""
