"""Times that tests shorten: one frozen value, injected where a component is made."""

from __future__ import annotations

import msgspec

_SWEEP_SHARE = 300
"""Minimum ratio of a pause to the sweep before it, for at most 0.3 % of a core."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals, delays and timeouts in seconds, each with the default the server runs with."""

    sweep_s: float = 30.0
    """Minimum interval between two sweeps, which find changes that no event reports."""

    # Mounts
    mount_start_s: float = 10.0
    """Timeout of a start, unless the provider has a longer one: the first request waits."""
    mount_close_s: float = 5.0
    """Timeout of a provider's close: hosts kill a process that does not end by itself."""
    mount_retry_s: float = 1.0
    """Delay before the first retry of a failed start; doubles up to `mount_retry_max_s`."""
    mount_retry_max_s: float = 60.0
    """Longest delay between two attempts to start a mount."""

    # Calls of providers
    statement_interval_s: float = 1.0
    """Time between two statements of one caller, on average."""
    call_s: float = 20.0
    """Timeout of one call, unless the provider has a longer one: hosts wait a minute."""
    survey_s: float = 60.0
    """Timeout of what `check` asks: a provider may look at all that it has."""

    # Listing and search
    listing_s: float = 20.0
    """Timeout of one mount in the listing of all, and of the children in the read of a collection:
    hosts wait a minute for the whole page."""
    search_s: float = 2.0
    """Time budget of one search page."""
    search_alone_s: float = 15.0
    """The same if one document is searched, which may be large or have to be converted."""
    search_convert_s: float = 1.0
    """How long the search of a folder waits for the conversion of one document."""
    conversion_retry_s: float = 60.0
    """After this time, a search tries once more a conversion that took too long."""
    search_read_s: float = 0.05
    """Minimum time for the reads of a search by the server itself, however late it is."""
    search_count_s: float = 0.25
    """How long a search goes on after a full page, to count the other matches."""
    search_mount_grace_s: float = 1.5
    """How long after its deadline a search still waits for a mount."""
    suggest_s: float = 0.5
    """Timeout of a look for resources like one that is missing; there may be three."""
    search_progress_s: float = 0.5
    """Interval of progress reports during a search."""

    # Subscriptions
    notify_interval_s: float = 0.05
    """Minimum interval between two notifications of one resource."""
    list_notify_interval_s: float = 0.25
    """Minimum interval between two `list_changed` notifications."""
    vanish_grace_s: float = 0.05
    """Time that a resource must be absent before its removal counts: editors move the old file away
    before they write the new one."""
    compare_retry_s: float = 1.0
    """Delay before a failed comparison is retried; doubles up to `compare_retry_max_s`."""
    compare_retry_max_s: float = 60.0
    """Longest delay between two attempts to compare a resource."""
    watch_retry_s: float = 1.0
    """Delay before an ended watch is started again; doubles up to `watch_retry_max_s`."""
    watch_retry_max_s: float = 60.0
    """Longest delay before an ended watch is started again."""
    watch_close_s: float = 5.0
    """Timeout for a provider to end its watch."""

    watch_settle_s: float = 0.05
    """Delay between a file system event and the scan of the directory or file."""
    watch_poll_s: float = 1.0
    """Minimum interval between two polls of directories that have no events."""
    watch_poll_share: float = 20.0
    """Pause after a poll, in multiples of the time that the poll took."""
    watch_root_s: float = 1.0
    """Interval between checks whether the root is still the same directory."""
    watch_lost_root_s: float = 0.1
    """The same, while the root is missing."""
    watch_slow_scan_s: float = 0.005
    """Directories that take longer to scan are scanned less often."""
    watch_yield_s: float = 0.25
    """How long the first scan of all directories waits for a search, after each 10 ms of it."""
    watchfiles_step_s: float = 0.01
    """`step` of watchfiles: its wait for the next event of a batch."""
    watchfiles_debounce_s: float = 0.05
    """`debounce` of watchfiles: the longest time that a batch collects events."""
    watchfiles_pulse_s: float = 0.5
    """Interval between checks whether watchfiles still watches the same root."""
    watchfiles_restart_s: float = 1.0
    """Delay before watchfiles is started again after a failure."""

    index_settle_s: float = 0.5
    """Pause between a change and the write of it to a search index."""
    index_retry_s: float = 60.0
    """Pause before a search index that cannot be kept is tried again."""
    index_build_pause_s: float = 5.0
    """How long the command `index` waits for conversions before it looks for them again."""

    search_document_s: float = 0.25
    """Minimum time for a document that a search has begun, however late it is."""
    search_grace_s: float = 0.4
    """How far a search may overrun its deadline; soon after, its caller gives up."""
    watch_listing_interval_s: float = 30.0
    """Interval of listings by the `watch` command, for mounts that report no changes."""

    request_timeout_s: float = 30.0
    """A client must send a whole request within this time."""
    slow_reader_timeout_s: float = 60.0
    """A client must read at least 64 KiB of its response within this time."""
    sse_keep_alive_s: float = 15.0
    """Silence on an event stream before a comment keeps proxies from closing it."""
    http_drain_s: float = 2.0
    """Grace period for requests in flight when their session or the server ends."""
    shutdown_timeout_s: float = 10.0
    """Grace period for open connections when the server ends."""
    session_evictable_s: float = 60.0
    """A session idle for this time may make room for another, when there are too many."""
    fleet_call_s: float = 2.0
    """Timeout of a call of the store that a fleet shares: its requests wait for it."""
    fleet_pause_s: float = 1.0
    """After a failed call, no other is tried for this time."""
    fleet_ping_s: float = 5.0
    """Silence of the store before its connection is tested."""
    fleet_retry_s: float = 0.1
    """Delay before the first new connection to the store; doubles up to `fleet_retry_max_s`."""
    fleet_retry_max_s: float = 5.0
    """Longest delay between two attempts to connect to the store."""
    fleet_sync_s: float = 15.0
    """Interval at which a session with a stream is compared with the store: messages may be
    lost."""
    fleet_save_s: float = 1.0
    """Delay before what could not be recorded in the store is tried again."""
    worker_retry_s: float = 0.5
    """Delay before a worker that has died is started again; doubles up to `worker_retry_max_s`."""
    worker_retry_max_s: float = 30.0
    """Longest delay before a worker is started again; one that lives longer has begun well."""
    worker_answer_s: float = 5.0
    """Timeout for the worker that has a session to take a request."""
    token_cache_s: float = 60.0
    """A verified token is verified again after this time: its key may have been withdrawn."""
    clock_skew_s: float = 30.0
    """The clocks of an issuer and of this machine may differ by this much."""
    jwks_fresh_s: float = 300.0
    """An issuer's keys older than this are used, and renewed."""
    jwks_max_age_s: float = 3600.0
    """Keys that cannot be renewed are used for this time: one may have been withdrawn."""
    jwks_fetch_pause_s: float = 10.0
    """Minimum interval of fetches for unknown keys: any client can invent one."""
    jwks_fetch_timeout_s: float = 10.0
    """Timeout of one fetch of keys, all requests to the issuer included."""
    jwks_retry_first_s: float = 2.0
    """Delay after the first failed fetch of keys; doubles with each further one."""
    jwks_retry_max_s: float = 60.0
    """The longest delay between two failed fetches of keys."""
    jwks_wait_s: float = 10.0
    """A request waits this long for the key of its token."""

    # The record of reads
    audit_settle_s: float = 0.05
    """How long lines are collected before they are written."""
    audit_retry_s: float = 1.0
    """Pause before the record is tried again after a failed write."""

    # Databases
    schema_cache_s: float = 1.0
    """Schema cache TTL."""
    row_count_cache_s: float = 1.0
    """TTL of a table's row count."""
    row_count_s: float = 0.02
    """Timeout of an exact row count; a slower one is estimated."""
    key_completion_s: float = 0.25
    """Timeout of a completion of keys, which runs at every keystroke."""
    query_check_delay_s: float = 2.0
    """Delay between the start of a database and the check of its declared queries."""

    progress_s: float = 1.0
    """Time after which a command shows at a terminal that it works."""
    host_answer_s: float = 10.0
    """Timeout of a server that `install --list` starts; hosts wait as long."""

    progress_tick_s: float = 1.0
    """Interval at which a request that reports no progress itself tells how long it runs."""
    progress_interval_s: float = 0.1
    """Minimum interval between progress notifications of one request."""
    elicitation_timeout_s: float = 600.0
    """How long a person may take to answer an elicitation."""
    roots_timeout_s: float = 10.0
    """How long a client may take to list its roots."""
    roots_interval_s: float = 1.0
    """Minimum pause before a client is asked for its roots again."""
    tool_timeout_s: float = 60.0
    """How long a provider's tool may run, not counting elicitations."""
    tool_list_timeout_s: float = 5.0
    """Timeout for a provider to list its tools, which delays the start of hosts."""

    def pause_after_sweep(self, spent_s: float) -> float:
        """Return the pause after a sweep: `sweep_s`, or longer after a sweep that took long."""
        return max(self.sweep_s, _SWEEP_SHARE * spent_s)


DEFAULT_TIMING = Timing()
"""The times that the server runs with."""
