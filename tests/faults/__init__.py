"""Kills real processes at chosen points of a batch's way, and compares source and lake afterwards."""
