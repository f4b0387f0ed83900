from __future__ import annotations

from adsum.dns.limits import DnsLimits, RateVerdict, SourceRates
from adsum.now import SECOND

LIMITS = DnsLimits(answers_per_s=10, answers_burst=20, prefixes_max=4)


def test_burst_passes_and_then_the_rate() -> None:
    rates = SourceRates(LIMITS)
    at_once = [rates.judge(b"net", SECOND) for _ in range(40)]
    assert at_once.count(RateVerdict.ANSWER) == 20
    later = [rates.judge(b"net", 2 * SECOND) for _ in range(40)]
    assert later.count(RateVerdict.ANSWER) == 10


def test_every_second_answer_over_the_rate_slips() -> None:
    rates = SourceRates(LIMITS)
    verdicts = [rates.judge(b"net", SECOND) for _ in range(40)]
    assert verdicts.count(RateVerdict.SLIP) == verdicts.count(RateVerdict.DROP) == 10


def test_one_network_does_not_pay_for_another() -> None:
    rates = SourceRates(LIMITS)
    for _ in range(100):
        rates.judge(b"flood", SECOND)
    assert rates.judge(b"quiet", SECOND) is RateVerdict.ANSWER


def test_many_forged_networks_neither_grow_memory_nor_lock_anyone_out() -> None:
    rates = SourceRates(LIMITS)
    verdicts = {rates.judge(number.to_bytes(3), SECOND) for number in range(1000)}
    assert verdicts == {RateVerdict.ANSWER}
    assert rates.judge(b"real", SECOND) is RateVerdict.ANSWER
    assert rates.networks <= 4
