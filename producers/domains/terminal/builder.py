"""The program that builds a project, as it lies on the machine: four stages, each of which leaves a file."""

BUILDER = '''"""Build the project: python3 build.py"""

import ast
import csv
import importlib
import json
import os
import sys

sys.dont_write_bytecode = True


def stop(stage, message):
    sys.exit(f"stage {stage}: {message}")


def leave(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def manifest():
    try:
        found = json.load(open("project.json"))
    except ValueError as error:
        stop(1, f"project.json: {error}")
    for name in ("name", "version", "modules", "entry"):
        if name not in found:
            stop(1, f"project.json has no {name!r}")
    for name in found["modules"]:
        if not os.path.exists(f"src/{name}.py"):
            stop(1, f"there is no src/{name}.py")
    names = "".join(f"{name}\\n" for name in sorted(found["modules"]))
    leave("out/1-manifest.txt", f"{found['name']} {found['version']}\\n{names}")
    return found


def modules(project):
    text = ""
    for name in sorted(project["modules"]):
        try:
            tree = ast.parse(open(f"src/{name}.py").read())
        except SyntaxError as error:
            stop(2, f"src/{name}.py, line {error.lineno}: {error.msg}")
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        text += f"{name}: {' '.join(functions)}\\n"
    if project["entry"] not in text.split():
        stop(2, f"no module defines {project['entry']}")
    leave("out/2-modules.txt", text)


def tests(project):
    sys.path.insert(0, "src")
    entry = getattr(importlib.import_module("core"), project["entry"])
    expected = json.load(open("tests/expected.json"))
    for number, result in expected.items():
        got = entry([int(number)])
        if got != result:
            stop(3, f"{project['entry']}([{number}]) is {got}, wanted {result}")
    leave("out/3-tests.txt", f"{len(expected)} passed\\n")
    return entry


def report(project, entry):
    noun = project["entry"].partition("_")[2]
    with open(f"data/{noun}.csv") as file:
        numbers = [int(row["value"]) for row in csv.DictReader(file)]
    values = entry(numbers)
    leave(
        "dist/report.txt",
        f"{project['name']} {project['version']}\\n"
        f"{len(values)} {noun}, total {sum(values)}, highest {max(values, default=0)}\\n",
    )


project = manifest()
modules(project)
entry = tests(project)
report(project, entry)
print("build went through")
'''
