"""The comparison itself: what it must see, what it must not, and that its list of excuses stays honest."""

from __future__ import annotations

from collections import Counter

from tests.conformance.case import Json, Look
from tests.conformance.differences import Difference, differences
from tests.conformance.expected import EXPECTED, Deviation
from tests.conformance.families import families

WHOLE = Look()


def places(consul: Json, ours: Json, look: Look = WHOLE) -> list[str]:
    return [each.where for each in differences(consul, ours, look)]


def test_difference_is_named_by_its_path() -> None:
    consul: Json = {"body": [{"Checks": [{"Output": "a"}]}]}
    ours: Json = {"body": [{"Checks": [{"Output": "b"}]}]}
    assert differences(consul, ours, WHOLE) == [Difference("body[0].Checks[0].Output", '"a"', '"b"')]


def test_missing_member_is_not_a_null_one() -> None:
    assert differences({"Meta": None}, {}, WHOLE) == [Difference("Meta", "null", "(absent)")]


def test_true_is_not_one_and_null_is_not_an_empty_list() -> None:
    assert places({"a": True, "b": None}, {"a": 1, "b": []}) == ["a", "b"]


def test_lists_of_other_length_differ_as_a_whole() -> None:
    assert places({"body": [1, 2]}, {"body": [1]}) == ["body"]


def test_order_counts_unless_consul_draws_it() -> None:
    consul: Json = {"body": {"web": ["a", "b"]}}
    ours: Json = {"body": {"web": ["b", "a"]}}
    assert places(consul, ours) == ["body.web[0]", "body.web[1]"]
    assert places(consul, ours, Look(unordered=("body.*",))) == []


def test_only_keeps_what_is_listed_what_is_below_and_what_leads_there() -> None:
    look = Look(only=("status", "body[*].Node.Meta"))
    consul: Json = {"status": 200, "headers": {"X": "1"}, "body": [{"Node": {"Meta": {"k": 1}, "ID": "a"}}]}
    ours: Json = {"status": 200, "headers": {"X": "2"}, "body": [{"Node": {"Meta": {"k": 2}, "ID": "b"}}]}
    assert places(consul, ours, look) == ["body[0].Node.Meta.k"]


def test_ignored_and_typed_places_are_pruned_on_both_sides() -> None:
    look = Look(ignore=("body.now",), types=("body.count",))
    assert places({"body": {"now": 1, "count": 1}}, {"body": {"count": 2}}, look) == []
    assert places({"body": {"count": 1}}, {"body": {"count": "1"}}, look) == ["body.count"]


def test_deviation_explains_only_its_case_place_and_values() -> None:
    deviation = Deviation("an id", "why", cases=("web *",), at=("flags",), consul='"a"', ours="*")
    assert deviation.explains("web A", Difference("flags", '"a"', '"b"'))
    assert not deviation.explains("db A", Difference("flags", '"a"', '"b"'))
    assert not deviation.explains("web A", Difference("rcode", '"a"', '"b"'))
    assert not deviation.explains("web A", Difference("flags", '"c"', '"b"'))


def test_every_deviation_is_about_a_case_that_exists() -> None:
    names = [case.name for family in families() for case in family.cases]
    unlike = Difference("", "", "")
    idle = [
        each
        for each in EXPECTED
        if not any(Deviation("", "", each.cases).explains(name, unlike) for name in names)
    ]
    assert idle == []


def test_case_names_are_unique_within_a_family() -> None:
    for family in families():
        counts = Counter(case.name for case in family.cases)
        assert [name for name, count in counts.items() if count > 1] == [], family.name
