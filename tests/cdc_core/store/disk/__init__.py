"""The store on disk: files, recovery, damage."""
