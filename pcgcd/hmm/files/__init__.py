"""HMMs in files: our own format and those of other projects."""
