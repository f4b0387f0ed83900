from __future__ import annotations

from adsum.dns.generations import Generations


def test_what_is_asked_for_again_stays_while_a_thousand_others_go() -> None:
    kept: Generations[str, str] = Generations(values_max=10, bytes_max=1000)
    kept.put("often", "value", 1)
    for number in range(1000):
        kept.put(f"once {number}", "other", 1)
        assert kept.get("often") == "value"
    assert kept.get("once 1") is None


def test_there_are_never_more_than_the_maximum() -> None:
    kept: Generations[int, str] = Generations(values_max=10, bytes_max=1000)
    sizes = []
    for number in range(100):
        kept.put(number, "value", 1)
        sizes.append(len(kept))
    assert max(sizes) == 10


def test_bytes_make_room_as_numbers_do() -> None:
    kept: Generations[int, str] = Generations(values_max=1000, bytes_max=100)
    for number in range(6):
        kept.put(number, "value", 20)
    assert kept.turns == 2
    assert [kept.get(number) for number in (0, 1, 4, 5)] == [None, None, "value", "value"]


def test_what_is_larger_than_a_generation_is_kept_until_the_next_but_one() -> None:
    kept: Generations[str, str] = Generations(values_max=10, bytes_max=100)
    kept.put("large", "value", 500)
    kept.put("small", "value", 1)
    assert kept.get("small") == "value"
    kept.put("large too", "value", 500)
    assert kept.get("large") is None


def test_all_is_forgotten_at_once_when_it_became_untrue() -> None:
    kept: Generations[int, str] = Generations(values_max=10, bytes_max=1000)
    for number in range(8):
        kept.put(number, "value", 1)
    kept.forget()
    assert len(kept) == 0
    assert kept.get(7) is None
