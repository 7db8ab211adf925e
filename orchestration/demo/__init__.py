"""The demo: a shop, its workload, and the figures of its way into the lake. Starts servers of `stack`."""
