"""The capture service, room by room, and what its processes load."""
