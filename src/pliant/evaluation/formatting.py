"""Numbers as readers see them."""

from pliant.evaluation.metric import Metric

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
NO_VALUE = "–"


def quantity(number: float) -> str:
    """Return a count with three significant digits and its SI prefix, after a no-break space: 22713216 is '22.7 M'."""
    # At 999.5 and more, three digits would round up to the next prefix's 1.00.
    for size, prefix in _UNITS:
        if number >= 0.9995 * size:
            return f"{_three_digits(number / size)}\N{NO-BREAK SPACE}{prefix}"
    return _three_digits(number) if number % 1 else f"{number:.0f}"


def rounded(number: float) -> str:
    """Return a round count with its SI prefix and no more digits than it has: 20000000 is '20 M'."""
    for size, prefix in _UNITS:
        if number >= size:
            return f"{number / size:g}\N{NO-BREAK SPACE}{prefix}"
    return f"{number:g}"


def _three_digits(number: float) -> str:
    decimals = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{decimals}f}"


def percent(fraction: float | None, decimals: int = 0) -> str:
    """Return a fraction in percent: 0.5 is '50 %', with a no-break space; a dash for no value."""
    return NO_VALUE if fraction is None else f"{100 * fraction:.{decimals}f}\N{NO-BREAK SPACE}%"


def asked(sparsity: float) -> str:
    """Return a sparsity that was asked for, with decimals only where it has some: '50 %', '62.5 %'."""
    return f"{round(100 * sparsity, 2):g}\N{NO-BREAK SPACE}%"


def score(value: float | None) -> str:
    """Return a cosine or an nDCG with three decimals; a dash for no value."""
    return NO_VALUE if value is None else f"{value:.3f}"


def with_margin(metric: Metric | None) -> str:
    """Return a metric as value ± margin, such as '0.881 ±.012'; without an interval the value alone."""
    if metric is None or metric.margin is None:
        return score(None if metric is None else metric.value)
    return f"{score(metric.value)}\N{NO-BREAK SPACE}±{f'{metric.margin:.3f}'.removeprefix('0')}"


def ratio(value: float | None, whole: float | None) -> float | None:
    """Return `value / whole`, or None where either is missing or the whole is zero."""
    return None if value is None or not whole else value / whole
