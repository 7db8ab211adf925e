"""The events of a claim as Canal's entries: in come annotated blocks, out go the bytes of serialized `Entry` messages.

Kernels write them straight from the columns' texts into the outgoing buffer; there is no object for a row or a cell.
Source: EntryProtocol.proto of Canal 1.1.8; Protocol Buffers, "Encoding".
"""
