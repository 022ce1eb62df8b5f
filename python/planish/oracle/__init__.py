"""The oracle: owns the reference, the inputs, the expected values and the tolerances (docs/accuracy.md).

A candidate's process never sees an expected value; it gets buffers that this process allocated, and this process looks at
what is in them afterwards. `Service` is the wire's face, `Task` what was captured, `Region` a part of it that is checked on
its own, `Expected` what its outputs should be for one data set, `measure` and `gate` the accuracy contract.
"""
