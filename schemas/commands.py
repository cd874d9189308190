"""What a person or a rule told the system to do."""

import msgspec


class CommandGiven(msgspec.Struct, frozen=True, kw_only=True):
    """An instruction to running services, kept as history.

    Example: `CommandGiven(command="pause_domain", target="verbs", given_by="rollog up")`.
    """

    command: str
    """`declare_scoring`, `use_scoring`, `quarantine`, `lift_quarantine`, `rollback`, `fork`, `set_mix`;
    `stop_issuing` and the like."""
    target: str
    """What it is about: a domain, a run, a policy, a rollout."""
    arguments: dict[str, str | float | bool] = {}
    given_by: str
    reason: str = ""
