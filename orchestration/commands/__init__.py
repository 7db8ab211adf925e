"""One module a command of `sluice`. Each is imported when it is called, so that `sluice --help` stays quick."""
