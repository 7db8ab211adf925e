"""The Delta tables: where they are, what their logs say, how they are made and altered, and the ledger of batches.

Nothing here knows a claim's rows. `apply` writes them, `verify` compares them.
"""
