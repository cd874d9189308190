from hypothesis import given
from hypothesis import strategies as st

from consumers.acknowledgements import Acknowledgements

AT = ("rollouts", 0)


def test_nothing_is_committable_before_anything_is_delivered() -> None:
    assert Acknowledgements().committable() == {}


def test_an_event_in_flight_holds_the_commit_back_however_many_after_it_are_done() -> None:
    books = Acknowledgements()
    acks = [books.deliver(AT, offset) for offset in range(5, 9)]

    for ack in acks[1:]:
        ack()
    assert books.committable() == {AT: 5}

    acks[0]()
    assert books.committable() == {AT: 9}


def test_gaps_between_offsets_do_not_hold_it_back() -> None:
    books = Acknowledgements()
    for offset in (3, 10, 40):
        books.deliver(AT, offset)()

    assert books.committable() == {AT: 41}


def test_an_acknowledgement_of_an_earlier_assignment_changes_nothing() -> None:
    books = Acknowledgements()
    stale = books.deliver(AT, 5)
    books.clear()
    books.deliver(AT, 5)

    stale()

    assert books.committable() == {AT: 5}
    assert books.num_in_flight == 1


def test_acknowledging_twice_is_harmless() -> None:
    books = Acknowledgements()
    ack = books.deliver(AT, 5)

    ack()
    ack()

    assert books.committable() == {AT: 6}


def test_partitions_do_not_hold_each_other_back() -> None:
    books = Acknowledgements()
    books.deliver(AT, 5)
    books.deliver(("rollouts", 1), 7)()

    assert books.committable() == {AT: 5, ("rollouts", 1): 8}

    books.clear([AT])
    assert books.committable() == {("rollouts", 1): 8}


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=60), st.randoms())
def test_everything_below_the_commit_is_acknowledged_and_nothing_more_could_be_committed(
    steps: list[tuple[int, bool]], random: object
) -> None:
    """Against the definition: the longest prefix of delivered offsets of which all are acknowledged."""
    books = Acknowledgements()
    delivered: dict[int, list[int]] = {0: [], 1: [], 2: []}
    open_acks: dict[tuple[int, int], object] = {}
    for partition, then_ack in steps:
        offset = (delivered[partition][-1] + 1 + partition) if delivered[partition] else partition
        delivered[partition].append(offset)
        open_acks[partition, offset] = books.deliver(("t", partition), offset)
        if then_ack and open_acks:
            chosen = random.choice(sorted(open_acks))  # type: ignore[attr-defined]
            open_acks.pop(chosen)()  # type: ignore[operator]
    for partition, offsets in delivered.items():
        waiting = [offset for offset in offsets if (partition, offset) in open_acks]
        expected = waiting[0] if waiting else offsets[-1] + 1 if offsets else None
        assert books.committable().get(("t", partition)) == expected
