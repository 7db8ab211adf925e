"""5 decode: a range of blocks in, Arrow record batches of one table out."""
