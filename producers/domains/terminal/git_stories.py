"""What people do to a repository, and how it should look afterwards."""

import random
from typing import Any

import msgspec

from producers.domains.terminal.repository import Repository
from producers.domains.terminal.verdicts import answer_is, bash, heredoc, json_text, label
from schemas.executions import Case
from schemas.parts import Part

AREAS = ("parser", "login", "billing", "search", "export", "cache", "mailer", "theme")
DEEDS = ("Add", "Fix", "Speed up", "Tidy", "Document", "Extend", "Simplify", "Test")
GIT = "git --no-replace-objects"
"""As it is asked at the end: what a ref says of another object counts for nothing."""
IS_CLEAN = 'test -z "$(git status --porcelain)"'
FIND_LOST = "git fsck --lost-found; for one in $(ls .git/lost-found/commit); do git log -1 --oneline $one; done"


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """One accident."""

    question: str
    repository: Repository
    parts: tuple[Part, ...]
    gold: tuple[str, ...]
    partials: tuple[tuple[str, ...], ...] = ()
    wrongs: tuple[tuple[str, ...], ...] = ()
    with_log: bool = True
    weight: float
    setup: str = "git read-tree HEAD"
    cases: tuple[Case, ...] = ()
    """Lines that are run on what a rollout left, once it is over."""


def ref_is(branch: str, commit: str, weight: float = 1.0) -> Part:
    """Return the credit for a branch that names just that commit."""
    return Part(
        kind="exact",
        name=f"branch {label(branch)}",
        of=f"file:.git/refs/heads/{branch}",
        expected=commit,
        weight=weight,
    )


def ref_kept(branch: str, commit: str) -> Part:
    """Return the gate that a branch is where it was."""
    return Part(
        kind="exact", name=f"kept {label(branch)}", of=f"file:.git/refs/heads/{branch}", expected=commit, role="gate"
    )


def history(rng: random.Random, num: int) -> tuple[Repository, list[str], list[str]]:
    """Return a repository with commits on main, their names and their messages, oldest first."""
    repository = Repository()
    files = {"README.md": f"# {rng.choice(AREAS)}-{rng.randint(100, 999)}\n"}
    commits: list[str] = []
    messages: list[str] = []
    for number in range(num):
        area, deed = rng.choice(AREAS), rng.choice(DEEDS)
        files[f"src/{area}.py"] = f"VERSION = {number}\nLIMIT = {rng.randint(1, 9999)}\n"
        messages.append(f"{deed} {area} (#{rng.randint(100, 999)}{number})")
        commits.append(repository.commit(files, messages[-1], commits[-1] if commits else ""))
        repository.move("main", commits[-1], f"commit{' (initial)' * (number == 0)}: {messages[-1]}")
    return repository, commits, messages


def lost_commits(rng: random.Random, level: int) -> Story:
    """Tell of a reset that threw commits away."""
    repository, commits, messages = history(rng, 4 + level)
    num_lost = rng.randint(1, 1 + level)
    kept = len(commits) - num_lost - 1
    repository.move("main", commits[kept], f"reset: moving to HEAD~{num_lost}")
    with_log = level < 2
    for _ in range(level):
        stray = repository.commit({"notes.txt": f"{rng.random()}\n"}, f"WIP {rng.choice(AREAS)}", commits[kept])
        repository.move("main", stray, "commit: WIP")
        repository.move("main", commits[kept], "reset: moving to HEAD~1")
    wanted = commits[-1]
    find = "git reflog" if with_log else FIND_LOST
    return Story(
        question=f'Someone reset main, and {num_lost} commit(s) are gone, the last of which is "{messages[-1]}". Bring '
        "main back to exactly that commit, with its whole history, and the files with it.",
        repository=repository,
        parts=(ref_is("main", wanted, 3.0), *content_of(repository, wanted, 2)),
        gold=(bash(find), bash(f"git reset --hard {wanted}"), "main is back."),
        wrongs=((bash("git log --oneline"), "main is back."), (bash("git reset --hard HEAD~1"), "Done.")),
        with_log=with_log,
        weight=2.0 + level,
    )


def content_of(repository: Repository, commit: str, most: int) -> list[Part]:
    """Return credit for files that a commit has and HEAD has not."""
    now = repository.trees[repository.branches[repository.head]]
    files = [(path, text) for path, text in repository.trees[commit].items() if now.get(path) != text]
    return [
        Part(kind="exact", name=f"file {label(path)}", of=f"file:{path}", expected=text) for path, text in files[:most]
    ]


def wrong_branch(rng: random.Random, level: int) -> Story:
    """Tell of commits for a branch that were made on main."""
    repository, commits, messages = history(rng, 5 + level)
    num = rng.randint(1, 1 + level)
    base = commits[-num - 1]
    branch = f"feature/{rng.choice(AREAS)}-{rng.randint(10, 99)}"
    others = {f"release-{number}": commits[number] for number in range(level)}
    repository.branches |= others
    return Story(
        question=f'The last {num} commit(s) on main, from "{messages[-num]}" on, were meant for a new branch {branch}. '
        f"Make that branch with them, put main back to the commit before, and leave the other branches alone.",
        repository=repository,
        parts=(
            *(ref_kept(name, commit) for name, commit in others.items()),
            ref_is(branch, commits[-1]),
            ref_is("main", base),
        ),
        gold=(bash("git log --oneline; git branch"), bash(f"git branch {branch} && git reset --hard {base}"), "Done."),
        partials=((bash(f"git branch {branch}"), "The branch is there."),),
        wrongs=((bash("git status"), "Done."), (bash("git checkout -b wip"), "Done.")),
        weight=2.0 + level,
    )


def deleted_branch(rng: random.Random, level: int) -> Story:
    """Tell of branches that were deleted before they were merged."""
    repository, commits, _ = history(rng, 3 + level)
    names = [f"{area}-work" for area in rng.sample(AREAS, 1 + level)]
    tips: dict[str, str] = {}
    titles: dict[str, str] = {}
    for name in names:
        parent = rng.choice(commits)
        repository.move(name, parent, f"checkout: moving from main to {name}")
        titles[name] = f"Draft {name} {rng.randint(100, 999)}"
        tips[name] = repository.commit({"draft.md": f"{name} {rng.random()}\n"}, titles[name], parent)
        repository.move(name, tips[name], f"commit: {titles[name]}")
        repository.move("main", commits[-1], f"checkout: moving from {name} to main")
    for name in names:
        del repository.branches[name]
    num = min(len(names), 1 + level // 2)
    wanted = rng.sample(names, num)
    told = " and ".join(f'{name} (its last commit was "{titles[name]}")' for name in wanted)
    lines = [f"git branch {name} {tips[name]}" for name in wanted]
    return Story(
        question=f"Branches were deleted before they were merged. Bring back {told}, each at its last commit. Leave "
        "main alone, and bring back no other.",
        repository=repository,
        parts=(
            ref_kept("main", commits[-1]),
            *(
                Part(
                    kind="regex",
                    name=f"no {label(name)}",
                    of=f"file:.git/refs/heads/{name}",
                    expected=r"\S",
                    role="veto",
                )
                for name in names
                if name not in wanted
            ),
            *(ref_is(name, tips[name]) for name in wanted),
        ),
        gold=(bash("git reflog"), bash("\n".join(lines)), "They are back."),
        partials=((bash(lines[0]), "One is back."),) if num > 1 else (),
        wrongs=((bash("git branch -a"), "It is back."), (bash(f"git branch {wanted[0]}"), "It is back.")),
        weight=2.0 + level,
    )


def guilty_commit(rng: random.Random, level: int) -> Story:
    """Tell of a value that went wrong in some commit."""
    num = 8 + 6 * level
    repository = Repository()
    area, good, bad = rng.choice(AREAS), rng.randint(10, 99), rng.randint(100, 999)
    guilty = rng.randint(2, num - 2)
    files: dict[str, str] = {}
    commits: list[str] = []
    titles = []
    for number in range(num):
        value = good if number < guilty else bad
        files["conf/limits.txt"] = f"rate={value}\nburst={rng.randint(1, 9999)}\n"
        files[f"src/{rng.choice(AREAS)}.py"] = f"BUILD = {number}\n"
        titles.append(f"{rng.choice(DEEDS)} {rng.choice(AREAS)}")
        commits.append(repository.commit(files, titles[-1], commits[-1] if commits else ""))
        repository.move("main", commits[-1], f"commit: {titles[-1]}")
    answer = {"commit": commits[guilty], "title": titles[guilty], "before": good}
    wrong = {"commit": commits[-1], "title": "none", "before": bad}
    return Story(
        question=f"In conf/limits.txt the rate of {area} is {bad}, which is wrong; it was right once. Find the commit "
        'that changed it to that. Answer with one JSON object {"commit": ..., "title": ..., "before": ...}: its whole '
        "name (40 digits), its title, and the rate before it.",
        repository=repository,
        parts=(answer_is(answer),),
        gold=(bash(f"git log --format='%H %s' -S'rate={bad}' -- conf/limits.txt"), json_text(answer)),
        partials=((bash("git log"), json_text(answer | {"commit": commits[0]})),),
        wrongs=((bash("git log"), json_text(wrong)),),
        weight=2.0 + level,
    )


def bad_commit(rng: random.Random, level: int) -> Story:
    """Tell of a commit that has to be undone by another one."""
    num, place = 5 + 2 * level, 1 + rng.randrange(3 + level)
    repository = Repository()
    path = f"conf/{rng.choice(AREAS)}.ini"
    good = f"[limits]\nrate = {rng.randint(10, 99)}\nburst = {rng.randint(100, 900)}\n"
    bad = good.replace("rate = ", "rate = -").replace("burst", "bursts")
    files = {path: good, "README.md": "# service\n"}
    commits: list[str] = []
    titles: list[str] = []
    for number in range(num):
        if number == place:
            files[path] = bad
            titles.append(f"Tune {path} ({rng.randint(100, 999)})")
        else:
            files[f"src/{rng.choice(AREAS)}.py"] = f"BUILD = {number}\n"
            titles.append(f"{rng.choice(DEEDS)} {rng.choice(AREAS)}")
        commits.append(repository.commit(files, titles[-1], commits[-1] if commits else ""))
        repository.move("main", commits[-1], f"commit: {titles[-1]}")
    tip = commits[-1]
    show = f"{GIT} show main:{path}"
    edit = bash(f"git checkout {commits[place - 1]} -- {path}")
    return Story(
        question=f'The commit "{titles[place]}" has to be undone by a new commit on main, after the others: history '
        "must not be rewritten, what later commits did must stay, and nothing may be left uncommitted.",
        repository=repository,
        parts=(checks({"history": {}, "later": files_of(files, path), "undone": good}, needs=("history", "later")),),
        gold=(bash("git log --oneline --stat"), bash(f"git revert --no-edit {commits[place]}"), "It is undone."),
        wrongs=((edit, "It is undone."), (bash(f"git reset --hard {commits[place - 1]}"), "It is undone.")),
        weight=3.0 + level,
        cases=(
            Case(name="history", epilogue=f"{GIT} merge-base --is-ancestor {tip} main && {IS_CLEAN}"),
            Case(name="later", epilogue=f"{GIT} ls-tree -r --name-only main | grep -v '^{path}$'"),
            Case(name="undone", epilogue=show),
        ),
    )


def conflict(rng: random.Random, level: int) -> Story:
    """Tell of a merge that stopped at a conflict."""
    repository, commits, _ = history(rng, 2 + level)
    path, branch = f"conf/{rng.choice(AREAS)}.list", f"{rng.choice(AREAS)}-{rng.randint(10, 99)}"
    base = [f"{name}={rng.randint(1, 99)}" for name in rng.sample(AREAS, 3 + level)]
    ours, theirs = (
        [f"{name}-{side}={rng.randint(100, 999)}" for name in rng.sample(AREAS, 1 + level)] for side in ("a", "b")
    )
    tree = repository.trees[commits[-1]]

    def committed(lines: list[str], message: str, parent: str) -> str:
        return repository.commit(tree | {path: "".join(f"{line}\n" for line in lines)}, message, parent)

    start = committed(base, f"Add {path}", commits[-1])
    tip, other = committed(base + ours, "Extend the list", start), committed(base + theirs, f"Work on {branch}", start)
    repository.branches[branch] = other
    repository.move("main", tip, "commit: Extend the list")
    wanted = "".join(f"{line}\n" for line in base + ours + theirs)
    finish = "git add -A && git commit -q --no-edit"
    return Story(
        question=f"A merge of {branch} into main stopped at a conflict in {path}. Finish it: keep all lines of both, "
        f"those of main before those of {branch}, and commit the merge, so that nothing is left uncommitted.",
        repository=repository,
        parts=(checks({"tidy": {}, "merged": wanted}, needs=("tidy",), partial="lines"),),
        gold=(bash(f"git status; cat {path}"), bash(f"{heredoc(path, wanted)}\n{finish}"), "It is merged."),
        partials=((bash(f"git checkout --ours {path} && {finish}"), "It is merged."),),
        wrongs=((bash("git merge --abort"), "It is merged."), (bash(heredoc(path, wanted)), "It is merged.")),
        weight=3.0 + level,
        setup=f"git read-tree HEAD; git merge -q {branch} || true",
        cases=(
            Case(
                name="tidy",
                epilogue=f"{GIT} merge-base --is-ancestor {tip} main && {GIT} merge-base --is-ancestor {other} main && "
                f"{IS_CLEAN}",
            ),
            Case(name="merged", epilogue=f"{GIT} show main:{path}"),
        ),
    )


def checks(expected: dict[str, Any], *, needs: tuple[str, ...], partial: str = "none") -> Part:
    """Return the part that knows what the lines run at the end should print."""
    options = {"needs": list(needs), "partial": partial}
    return Part(kind="cases", of="cases", expected=expected, options=options)


def files_of(files: dict[str, str], but: str) -> str:
    """Return the paths that `git ls-tree` lists."""
    return "".join(f"{path}\n" for path in sorted(files) if path != but)


STORIES = (lost_commits, wrong_branch, deleted_branch, guilty_commit, bad_commit, conflict)
