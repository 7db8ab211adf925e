"""Delta tables: types, epochs, ledger, fence."""
