"""A git repository made here, object by object, so that the name of every commit is known before anything runs."""

import hashlib
import zlib
from collections.abc import Mapping

AUTHOR = "Robin Weaver <robin@example.org>"
FIRST_S = 1_790_000_000
NO_COMMIT = "0" * 40
CONFIG = (
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"
    "[user]\n\tname = Robin Weaver\n\temail = robin@example.org\n[gc]\n\tauto = 0\n[advice]\n\tdetachedHead = false\n"
)


class Repository:
    """Objects, branches and the log of HEAD."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.branches: dict[str, str] = {}
        self.trees: dict[str, dict[str, str]] = {}
        """Files by commit."""
        self.head = "main"
        self.log: list[str] = []
        self.clock_s = FIRST_S

    def put(self, kind: str, content: bytes) -> str:
        """Keep an object and return its name."""
        whole = f"{kind} {len(content)}\0".encode() + content
        name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        self.objects[name] = zlib.compress(whole)
        return name

    def tree(self, files: Mapping[str, str]) -> str:
        """Keep a folder and return its name."""
        entries: dict[str, tuple[str, str]] = {}
        folders: dict[str, dict[str, str]] = {}
        for path, text in files.items():
            first, _, rest = path.partition("/")
            if rest:
                folders.setdefault(first, {})[rest] = text
            else:
                entries[first] = ("100644", self.put("blob", text.encode()))
        for name, inner in folders.items():
            entries[name] = ("40000", self.tree(inner))
        ordered = sorted(entries.items(), key=lambda one: one[0] + "/" * (one[1][0] == "40000"))
        return self.put(
            "tree", b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(sha) for name, (mode, sha) in ordered)
        )

    def commit(self, files: Mapping[str, str], message: str, parent: str = "") -> str:
        """Keep a commit and return its name; no branch moves."""
        self.clock_s += 3600
        lines = [f"tree {self.tree(files)}"]
        lines += [f"parent {parent}"] if parent else []
        lines += [f"{role} {AUTHOR} {self.clock_s} +0000" for role in ("author", "committer")]
        name = self.put("commit", ("\n".join(lines) + f"\n\n{message}\n").encode())
        self.trees[name] = dict(files)
        return name

    def move(self, branch: str, commit: str, why: str) -> None:
        """Let a branch, which becomes HEAD's, name a commit, and write that into the log."""
        before = self.branches.get(self.head, NO_COMMIT)
        self.head = branch
        self.branches[branch] = commit
        self.clock_s += 60
        self.log.append(f"{before} {commit} {AUTHOR} {self.clock_s} +0000\t{why}\n")

    def files(self, *, with_log: bool = True) -> dict[str, bytes]:
        """Return the working directory with its repository; the index is for `git read-tree HEAD` to make."""
        inner = {f".git/objects/{name[:2]}/{name[2:]}": content for name, content in self.objects.items()}
        inner |= {f".git/refs/heads/{name}": f"{commit}\n".encode() for name, commit in self.branches.items()}
        inner |= {".git/HEAD": f"ref: refs/heads/{self.head}\n".encode(), ".git/config": CONFIG.encode()}
        if with_log:
            inner[".git/logs/HEAD"] = "".join(self.log).encode()
        tree = self.trees[self.branches[self.head]]
        return inner | {path: text.encode() for path, text in tree.items()}
