"""Which names of memcached's statistics the candidate shares, which it may lack and why, and which numbers must agree.

Any name that the candidate has and memcached lacks begins with OWN_PREFIX.
"""

OWN_PREFIX = "tandem_"


def names(text: str) -> set[str]:
    return set(text.split())


def lacking(reason: str, text: str) -> dict[str, str]:
    return dict.fromkeys(text.split(), reason)


SHARED: dict[str, set[str]] = {
    "": names("""
        pid uptime time version pointer_size rusage_user rusage_system max_connections curr_connections
        total_connections rejected_connections connection_structures cmd_get cmd_set cmd_flush cmd_touch cmd_meta
        get_hits get_misses get_expired get_flushed delete_misses delete_hits incr_misses incr_hits decr_misses
        decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory auth_cmds
        auth_errors bytes_read bytes_written limit_maxbytes accepting_conns listen_disabled_num
        time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes hash_is_expanding malloc_fails
        log_worker_dropped log_worker_written log_watcher_skipped log_watcher_sent log_watchers
        bytes curr_items total_items expired_unfetched evicted_unfetched evictions reclaimed slabs_moved
        response_obj_oom response_obj_count response_obj_bytes read_buf_count read_buf_bytes read_buf_bytes_free
        read_buf_oom reserved_fds slab_reassign_rescues slab_reassign_evictions_nomem slab_reassign_running
        slab_global_page_pool evicted_active lru_maintainer_juggles direct_reclaims
        lru_crawler_running lru_crawler_starts crawler_reclaimed crawler_items_checked
    """),
    "settings": names("""
        maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket umask growth_factor chunk_size
        num_threads reqs_per_event cas_enabled tcp_backlog binding_protocol item_size_max maxconns_fast flush_enabled
        idle_timeout track_sizes ssl_enabled ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers
        ssl_ca_cert ssl_wbuf_size ssl_session_cache ssl_kernel_tls ssl_min_version
        shutdown_command stat_key_prefix detail_enabled dump_enabled slab_reassign num_threads_per_udp hashpower_init
        read_buf_mem_limit
        slab_automove watcher_logbuf_size worker_logbuf_size memory_file lru_crawler lru_crawler_sleep
        lru_crawler_tocrawl
    """),
    # Of each size class; a class number stands before the name.
    "items": names("number age mem_requested evicted outofmemory reclaimed crawler_reclaimed crawler_items_checked"),
    "slabs": names("""
        chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks active_slabs total_malloced
        cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits
    """),
    "conns": names("addr listen_addr state secs_since_last_cmd UDP"),
}

MAY_LACK: dict[str, dict[str, str]] = {
    "": {
        "libevent": "no libevent",
        **lacking("no item is in chunks", "slab_reassign_chunk_rescues"),
        **lacking(
            "a move waits for the epochs that may see the page, not for one item's references",
            "slab_reassign_busy_items slab_reassign_busy_deletes slab_reassign_inline_reclaim",
        ),
        **lacking(
            "there are no LRU lists: no segments, no tail, no queue of bumps",
            "lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru lru_bumps_dropped",
        ),
        **lacking("no NAPI ids", "unexpected_napi_ids round_robin_fallback"),
    },
    "settings": lacking(
        "a setting of a part that has no counterpart",
        """
        auth_enabled_sasl auth_enabled_ascii
        slab_automove_ratio slab_automove_window slab_chunk_max tail_repair_time hash_algorithm
        lru_maintainer_thread lru_segmented hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor temp_lru
        temporary_ttl
        inline_ascii_response ext_item_size ext_item_age
        ext_low_ttl ext_recache_rate ext_wbuf_size ext_compact_under ext_drop_under ext_max_sleep ext_max_frag
        slab_automove_freeratio ext_drop_unread num_napi_ids drop_privileges proxy_enabled proxy_uring_enabled
        """,
    ),
    "items": lacking(
        "memcached's segmented LRU with its background threads has no counterpart",
        """
        number_hot number_warm number_cold number_temp age_hot age_warm evicted_time tailrepairs evicted_nonzero
        expired_unfetched evicted_unfetched
        evicted_active lrutail_reflocked moves_to_cold moves_to_warm
        moves_within_lru direct_reclaims hits_to_hot hits_to_warm hits_to_cold hits_to_temp
        """,
    ),
    "slabs": {
        "free_chunks_end": "memcached itself always says 0",
        **lacking("counted for the whole server alone: a read does not look for its item's size class", "get_hits"),
    },
    "conns": {},
}

# Settings with the same options: these numbers and words must be memcached's. The ports and paths are the servers' own,
# and so are the defaults of reqs_per_event, which only shares a worker's time between connections, and of chunk_size:
# the least that an item takes.
SAME_SETTINGS = SHARED["settings"] - {"tcpport", "udpport", "reqs_per_event", "domain_socket", "chunk_size"}

# Counters that equal memcached's after the same commands. cmd_meta is left out: memcached counts only me.
COUNTERS = sorted(
    names("""
        cmd_get cmd_set cmd_flush cmd_touch get_hits get_misses delete_misses delete_hits incr_misses incr_hits
        decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large bytes_read
    """)
)
