"""Log formats, one module each: each turns one format into builder calls and knows nothing else."""
