"""The verb `fork`: a new run from another one's checkpoint and log, with another objective, scoring or mix."""

import signal
import threading
from types import FrameType
from typing import Annotated, Any

import msgspec
import typer

from rollog.exit_codes import ExitCode
from rollog.options import AsJson, Flags, Home, Invocation, example, invocation, print_json, with_log
from rollog.progress import progress

Tree = dict[str, Any]


def fork(
    *,
    at: Annotated[int, typer.Option(help="Step of the source whose checkpoint it starts from.")],
    run_name: Annotated[str, typer.Option("--run", help="The source: a run that was started here.")],
    into: Annotated[str, typer.Option("--as", help="The fork's name; also names its topics and its policy.")],
    objective: Annotated[
        str, typer.Option(help="cispo, grpo, decoupled_ppo, topr, m2po, or JSON with `type`.")
    ] = "topr",
    scoring: Annotated[str, typer.Option(help="Whose rewards count; else those that the source trained on.")] = "",
    mix: Annotated[str, typer.Option(help="verbs=1,repair=0: groups by domain; others are left out.")] = "",
    steps: Annotated[int, typer.Option(help="Steps to train at most; 0 for all that there are batches for.")] = 0,
    again: Annotated[
        bool, typer.Option("--again", help="Groups that the checkpoint has trained on come again.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Make it; without it nothing is written.")] = False,
    train: Annotated[bool, typer.Option("--train", help="With --apply: then train it, in this process.")] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="With --train: then go on with what the source's groups become, as it comes."),
    ] = False,
    as_json: AsJson = False,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Make a run that trains on what another one recorded, offline; called again, it goes on where it was.

    Afterwards `rollog up --config` with the fork's settings.json evaluates it, and goes on live with more
    learner.steps.
    """
    from rollog.forking import Wanted, make_fork, plan_fork

    source = with_log(invocation(None, None, home, run=run_name))
    wanted = Wanted(
        step=at,
        run_id=into,
        objective=objective,
        scoring=scoring,
        mix=mix,
        num_steps=steps,
        flags=tuple(flags or ()),
        again=again,
    )
    if (train and not apply) or (follow and not train):
        raise typer.BadParameter("--train wants --apply, and --follow wants both")
    with progress("reading the source") as on_progress:
        planned = plan_fork(source, wanted, on_progress)
    said = plan_tree(planned)
    if apply:
        with progress("writing the fork") as on_progress:
            said["num_written"], said["num_known"] = make_fork(source, planned, on_progress, follows=follow)
        if train:
            said["trained"] = train_fork(source, planned, follows=follow, num_steps=steps)
    said["applied"] = apply
    if as_json:
        print_json(said)
    else:
        typer.echo("\n".join(lines_of(said)))
    if train and not said["trained"]["is_over"]:
        raise typer.Exit(ExitCode.INTERRUPTED)


def plan_tree(planned: Any) -> Tree:
    """Return a plan as JSON can hold it."""
    made, sifted = planned.fork, planned.sifted
    return {
        "run": made.run_id,
        "source": {"run": made.source_run, "namespace": made.source_namespace, "step": made.step},
        "objective": msgspec.to_builtins(planned.settings.learner.objective),
        "scoring_id": made.scoring_id,
        "mix": made.mix,
        "num_groups": sifted.num_groups,
        "num_behind": sifted.num_behind,
        "num_open": sifted.num_open,
        "decisions": dict(sorted(sifted.decisions.items())),
        "batches": sifted.by_domain,
        "kept": planned.kept,
        "num_batches": made.num_batches,
        "groups_per_step": planned.settings.learner.groups_per_step,
        "num_steps": planned.num_steps,
        "num_left": planned.num_left,
        "num_written": 0,
        "num_known": 0,
        "trained": None,
    }


def lines_of(said: Tree) -> list[str]:
    """Return it for people."""
    source, decisions = said["source"], ", ".join(f"{n} {reason}" for reason, n in said["decisions"].items())
    by_domain = ", ".join(f"{said['kept'].get(domain, 0)} of {n} {domain}" for domain, n in said["batches"].items())
    lines = [
        f"{said['run']}: from step {source['step']} of {source['run']}, {said['objective']['type']}, rewards of "
        f"{said['scoring_id']}",
        f"{said['num_groups']} groups: {said['num_behind']} are behind that step, {decisions or 'none decided'}; "
        f"{said['num_open']} are open",
        f"{said['num_batches']} batches: {by_domain or 'none'}",
        f"{said['num_steps']} steps of {said['groups_per_step']} groups; {said['num_left']} batches are left over",
    ]
    if not said["applied"]:
        return [*lines, "nothing written; --apply makes the fork"]
    lines.append(f"{said['num_written']} batches written, {said['num_known']} were there already")
    if said["trained"]:
        done = said["trained"]
        lines.append(f"trained to step {done['step']}; {done['num_left']} batches are left")
        lines.append(f"rollog up --config {done['settings']} evaluates it; more learner.steps go on live")
    return lines


def train_fork(source: Invocation, planned: Any, *, follows: bool, num_steps: int) -> Tree:
    """Train on what was recorded until it is used up, or until Ctrl-C: called again it goes on. Raises RollogError.

    One that follows its source trains `num_steps`, or until it is told to stop.
    """
    from rollog.fork_training import run_fork_learner

    settings, stop = planned.settings, threading.Event()
    first = planned.fork.step
    last = first + num_steps if follows and num_steps else 0 if follows else settings.learner.steps

    def told(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with progress("steps") as on_progress:
            step, num_left = run_fork_learner(
                source,
                planned,
                last_step=last,
                follows=follows,
                stop=stop,
                on_step=lambda step: on_progress(step - first, max(last, step) - first),
            )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    path = str(source.home / "runs" / settings.run / "settings.json")
    return {"step": step, "num_left": num_left, "is_over": step >= last, "settings": path}


def mount(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(epilog=example("rollog fork --at 40 --run demo-0-1 --as demo-topr --objective topr --apply --train"))(
        fork
    )
