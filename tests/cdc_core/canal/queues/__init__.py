"""Message queues: Canal's rules, flat messages, brokers."""
