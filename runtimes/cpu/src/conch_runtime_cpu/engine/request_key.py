"""The number by which the threads of an engine tell requests apart."""

from typing import NewType

RequestKey = NewType("RequestKey", int)
