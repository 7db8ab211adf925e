"""One destination: its configuration comes in, a capture for its clients, its status and its metrics go out."""
