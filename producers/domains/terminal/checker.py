"""The program that refuses settings, as it lies on the machine. It looks at forms and not at all values."""

CHECKER = '''"""Check the settings of a service: python3 check.py conf/NAME.json"""

import csv
import json
import re
import sys

LEVELS = ("debug", "info", "warning", "error")


def fail(message):
    sys.exit(f"refused: {message}")


def main(path):
    try:
        config = json.load(open(path))
    except ValueError as error:
        fail(f"no JSON: {error}")
    names = {row["name"]: row for row in csv.DictReader(open("registry.csv"))}
    if config.get("name") not in names:
        fail("name is not in registry.csv")
    if not isinstance(config.get("port"), int):
        fail("port is no number")
    if not re.fullmatch(r"[a-z]{2}-[0-9]", str(config.get("region"))):
        fail("region has not the form xx-N")
    if not re.fullmatch(r"http://[a-z]+\\.internal:[0-9]+", config["upstream"]["url"]):
        fail("upstream.url has not the form http://NAME.internal:PORT")
    if not 0 < config["upstream"]["timeout_ms"] <= 5000:
        fail("upstream.timeout_ms is not within 1 to 5000")
    if not 0 < config["limits"]["workers"] <= 64:
        fail("limits.workers is not within 1 to 64")
    if config["log"]["level"] not in LEVELS:
        fail(f"log.level is none of {', '.join(LEVELS)}")
    if not config["log"]["file"].startswith("/var/log/"):
        fail("log.file is not below /var/log")
    if not config["owner"].startswith("team-"):
        fail("owner is no team")
    print("accepted")


main(sys.argv[1])
'''
