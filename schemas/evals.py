"""How good a policy version is on tasks that are never trained on."""

import msgspec


class EvalScored(msgspec.Struct, frozen=True, kw_only=True):
    """One policy version's held-out result in one domain."""

    run_id: str
    policy: str
    version: int
    domain: str
    solve_rate: float
    """Share of valid tasks with reward 1."""
    reward_mean: float
    num_tasks: int
    num_invalid: int
    """Tasks that got no valid reward; they count in neither mean."""
