"""HTTP, Flight, the status page in a browser, and metrics."""
