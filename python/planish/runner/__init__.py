"""The torch runner: executes programs with aten steps, shipped folders and foreign modules over shared buffers.

It runs foreign code and is never believed beyond the declared fields of its answers; the parent watches and kills it.
"""
