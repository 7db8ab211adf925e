"""A destination into a message queue, as Canal's `canal.serverMode = kafka | rocketMQ` has it.

Claims are encoded as entries, `flat` writes Canal's flat messages from them, `rules` say which topic and partition each
belongs to, and a claim is acked when the broker has all of its messages.
"""
