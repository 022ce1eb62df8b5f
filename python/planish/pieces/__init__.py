"""A model that cannot be captured whole, in pieces: the graphs between the lines that only Python can run (decision 0172).

`split` cuts out of a graph what no program may hold, `graph` gives each piece a text and a key, `runner` stands where torch runs it, `search` looks
for its program, `store` keeps that for other processes, `whole` proves and attaches the result.
"""
