"""Percentiles over rows, not over batches."""

from __future__ import annotations

from orchestration.demo.freshness import Sample, Visible, percentiles


def test_percentiles_count_rows() -> None:
    """Ninety rows after two seconds and ten after nine: the median is two, the 95th percentile nine."""
    samples = [Sample(100.0, 10, 90), Sample(103.0, 20, 10)]
    batches = [Visible(25, 112.0), Visible(10, 102.0)]

    assert percentiles(samples, batches, (0.5, 0.95)) == [2.0, 9.0]


def test_a_row_is_visible_with_the_first_batch_that_covers_it() -> None:
    """A batch that ends before a sample does not count for it."""
    assert percentiles([Sample(0.0, 5, 1)], [Visible(4, 1.0), Visible(6, 3.0), Visible(9, 7.0)], (0.5,)) == [3.0]


def test_without_rows_there_is_no_delay() -> None:
    """Nothing measured has zeros."""
    assert percentiles([], [], (0.5,)) == [0.0]
