"""Reports: what runs and tables of runs say, as one page that needs no network.

`content.py` is what a report holds, `run_section.py` and `table_section.py` fill it in, and
`page.py` writes it as HTML. The scripts and the style of the page lie beside them.
"""
