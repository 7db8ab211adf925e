"""One destination's life: start, stop, failure, rewind, a switch to its standby."""
