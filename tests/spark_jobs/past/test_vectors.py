"""Deletion vectors, made here by the specification of Roaring bitmaps; `test_files` reads Spark's own."""

from __future__ import annotations

import random
import struct

import pytest

from cdc_core.errors import LakeError
from spark_jobs.past.vectors import identity, places_in
from tests.support.deletion_vectors import ARRAY, BITMAP, RUN, bitmap, vector


class TestPlacesIn:
    @pytest.mark.parametrize("seed", range(20))
    def test_any_containers(self, seed: int) -> None:
        """The numbers come out, whatever containers hold them, in bitmaps of any number."""
        rng = random.Random(seed)
        expected, bitmaps = [], {}
        for high in sorted(rng.sample(range(3), rng.randint(1, 2))):
            containers = {}
            for number in sorted(rng.sample(range(1 << 16), rng.randint(1, 6))):
                kind = rng.choice((ARRAY, BITMAP, RUN))
                size = rng.randint(5000, 9000) if kind == BITMAP else rng.randint(1, 4000)
                values = sorted(rng.sample(range(1 << 16), size) if kind != RUN else range(7, 7 + size))
                containers[number] = (values, kind)
                expected += [high << 32 | number << 16 | value for value in values]
            bitmaps[high] = bitmap(containers)

        assert places_in(vector(bitmaps)).tolist() == expected

    def test_unknown_form(self) -> None:
        """Another form is an error with a remedy, not wrong rows."""
        with pytest.raises(LakeError, match="unknown form"):
            places_in(struct.pack("<iq", 1681511376, 0))
        with pytest.raises(LakeError, match="unknown form"):
            places_in(vector({0: struct.pack("<I", 99)}))

    def test_nothing(self) -> None:
        """A vector without bitmaps has no row, and a file without a vector has no identity."""
        assert places_in(vector({})).tolist() == []
        assert identity(None) == ""
