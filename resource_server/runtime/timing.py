"""Times that tests shorten: one frozen value, injected where a component is made."""

from __future__ import annotations

import msgspec


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals, delays and timeouts in seconds, each with the default the server runs with."""

    sweep_s: float = 30.0
    """Minimum interval between two sweeps, which find changes that no event reports."""

    watch_settle_s: float = 0.05
    """Delay from a file system event to the look at the directory or file it names."""
    watch_poll_s: float = 1.0
    """Minimum interval between two polls of directories that have no events."""
    watch_poll_share: float = 20.0
    """A poll that takes a second is followed by this many without one."""
    watch_root_s: float = 1.0
    """Interval between checks whether the root is still the same directory."""
    watch_lost_root_s: float = 0.1
    """The same, while the root is missing."""
    watch_slow_scan_s: float = 0.005
    """Directories that take longer to scan are scanned less often."""
    watchfiles_step_s: float = 0.01
    """`step` of watchfiles: its wait for the next event of a batch."""
    watchfiles_debounce_s: float = 0.05
    """`debounce` of watchfiles: the longest time that a batch collects events."""
    watchfiles_pulse_s: float = 0.5
    """Interval between checks whether watchfiles still watches the same root."""
    watchfiles_restart_s: float = 1.0
    """Delay before watchfiles is started again after a failure."""

    search_document_s: float = 0.25
    """Minimum time for a document that a search has begun, however late it is."""
    search_grace_s: float = 0.4
    """How far a search may overrun its deadline; soon after, nobody waits for it."""
    watch_listing_interval_s: float = 30.0
    """Between listings of the `watch` command, for mounts that report no changes."""
