"""Numbers of bytes for people."""


def short_size(count: int) -> str:
    """Return a number of bytes in at most five characters: `812`, `1.2K`, `34M`, units of 1024."""
    number, units = float(count), iter("KMGTPE")
    unit = ""
    while number >= 999.5:
        number, unit = number / 1024, next(units)
    return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"
