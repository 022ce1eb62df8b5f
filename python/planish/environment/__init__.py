"""The environment endpoint (docs/environment.md) from Python: a client of the standard library alone, and a taskset for `verifiers`."""

from planish.environment.client import EndpointError as EndpointError
from planish.environment.client import Environment as Environment
from planish.environment.client import Grade as Grade
