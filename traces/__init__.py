"""rematsim.traces: what a model did, as a raw and immutable Trace.

Nothing here knows how a trace will be replayed. Start with ``trace.py`` (the value), then
``builder.py`` (the only way to make one) and ``loading.py`` (files to traces).
"""
