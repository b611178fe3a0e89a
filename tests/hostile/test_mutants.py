"""Files that are damaged or hostile are refused, or they play: nothing crashes, hangs, or takes the machine's memory."""

import sys
import time

import pytest

from tests.hostile import report
from tests.hostile.mutants import mutants, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits are watched in /proc")


def attack(count, first):
    found = run(mutants(count, first))
    print(found.table())
    assert not found.failures, "\n".join(found.failures)
    return found


def test_three_hundred_mutants():
    assert all(own.total() > 5 for own in attack(300, 0).counts.values())


@pytest.mark.slow
def test_ten_thousand_mutants():
    began = time.monotonic()
    found = attack(10_000, 10)
    report.write("mutants", report.mutants_table(found.table(), time.monotonic() - began))
