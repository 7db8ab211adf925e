"""The demo: a shop, its workload, a mart downstream, and the figures of its way into the lake. Starts servers of
`stack`."""
