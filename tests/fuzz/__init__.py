"""The coverage-guided fuzzer of the decoder and its target."""
