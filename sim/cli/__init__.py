"""The command ``rematsim``: results on standard output, everything else on standard error."""
