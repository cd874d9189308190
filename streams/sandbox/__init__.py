"""Running programs that nobody has read: in namespaces, in plain processes by explicit wish, or not at all."""

from streams.sandbox.fake import FakeSandbox
from streams.sandbox.interface import Sandbox, Session
from streams.sandbox.opening import open_sandbox

__all__ = ["FakeSandbox", "Sandbox", "Session", "open_sandbox"]
