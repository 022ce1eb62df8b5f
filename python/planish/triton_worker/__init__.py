"""The part of the compile worker that is Python because Triton is: source in, cubin out."""
