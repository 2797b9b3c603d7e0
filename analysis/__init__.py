"""rematsim.analysis: what tables of runs and event logs mean, as tables and as figures.

Simulates nothing: a figure can be redrawn from a file without running anything. `tables.py` reads,
`summaries.py` sums up, `figures.py` draws, `plotting.py` does all three for a file.
"""
