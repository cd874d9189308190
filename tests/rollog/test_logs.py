import logging

from rollog.logs import Repeats


def record(message: str, *values: object, at_s: float, name: str = "aiokafka") -> logging.LogRecord:
    made = logging.LogRecord(name, logging.ERROR, "x.py", 1, message, values, None)
    made.created = at_s
    return made


def test_the_same_message_is_written_once_in_a_while_whatever_its_values() -> None:
    repeats = Repeats(quiet_s=10.0)

    passed = [repeats.filter(record("no node %s", index, at_s=index)) for index in range(25)]

    assert [index for index, is_written in enumerate(passed) if is_written] == [0, 10, 20]


def test_what_was_held_back_is_counted_in_the_next() -> None:
    repeats = Repeats(quiet_s=10.0)
    for at_s in (0.0, 1.0, 2.0):
        repeats.filter(record("no node %s", 1, at_s=at_s))
    late = record("no node %s", 2, at_s=30.0)

    assert repeats.filter(late)
    assert late.getMessage() == "no node 2 (and 2 more like it)"


def test_other_messages_and_other_loggers_are_not_held_back() -> None:
    repeats = Repeats()

    assert all(
        repeats.filter(made)
        for made in (record("a", at_s=0.0), record("b", at_s=0.0), record("a", at_s=0.0, name="faust"))
    )
