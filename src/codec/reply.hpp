// Kinds of replies, passed from the parser to the reply writers in Query::reply, and the constant reply lines.
#pragma once
#include <cstdint>
#include <string_view>

#include "query/query.hpp"

namespace tandem::codec {

enum class ReplyKind : std::uint8_t {
  line,     // always Query::value, a whole line, with any result
  version,  // the version line
  // Text protocol.
  get,
  gets,
  store,
  remove,
  touch,
  arithmetic,
  // Meta protocol: Query::wire is walked again for the flags to return.
  meta_get,
  meta_set,
  meta_delete,
  meta_displaced,  // ms, md with G
  meta_arithmetic,
  meta_debug,
  // Opcode::control.
  flush_all,   // expiry_s
  verbosity,   // delta
  stats,       // the rest of the line
  administer,  // the whole line
  meta_range,  // the whole line (codec/range_lines.hpp)
  refresh_certs,
  config,  // delta: a ConfigAction; the key, client_flags and value
  // The answer to a set with user and password: Query::value is the line, Query::delta an Attempt.
  authenticate,
  // Binary protocol: Query::wire is the request's header. These are the last ones.
  binary_status,  // Query::value, and Query::client_flags as status, with any result
  binary_auth,    // the same, of SASL_AUTH or SASL_STEP
  binary_get,
  binary_get_key,
  binary_touch,
  binary_store,
  binary_remove,
  binary_displaced,  // exchange, take
  binary_arithmetic,
  // Opcode::control.
  binary_flush,   // expiry_s
  binary_stats,   // the key
  binary_range,   // the extras, and the key (codec/range_packets.hpp)
  binary_config,  // as config
};

// Whether an answer to a request for authentication counts as an attempt.
enum class Attempt : std::uint8_t { none, passed, failed };

inline ReplyKind reply_of(const Query& query) noexcept { return static_cast<ReplyKind>(query.reply); }
inline bool is_binary(const Query& query) noexcept {
  return query.reply >= static_cast<std::uint8_t>(ReplyKind::binary_status);
}

// memcached 1.6.18's lines, to the byte.
namespace line {
inline constexpr std::string_view end = "END\r\n";
inline constexpr std::string_view ok = "OK\r\n";
inline constexpr std::string_view reset = "RESET\r\n";
inline constexpr std::string_view mn = "MN\r\n";
inline constexpr std::string_view error = "ERROR\r\n";
inline constexpr std::string_view stored = "STORED\r\n";
inline constexpr std::string_view not_stored = "NOT_STORED\r\n";
inline constexpr std::string_view exists = "EXISTS\r\n";
inline constexpr std::string_view not_found = "NOT_FOUND\r\n";
inline constexpr std::string_view deleted = "DELETED\r\n";
inline constexpr std::string_view touched = "TOUCHED\r\n";
inline constexpr std::string_view bad_line = "CLIENT_ERROR bad command line\r\n";
inline constexpr std::string_view bad_format = "CLIENT_ERROR bad command line format\r\n";
inline constexpr std::string_view bad_delete =
    "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
inline constexpr std::string_view bad_exptime = "CLIENT_ERROR invalid exptime argument\r\n";
inline constexpr std::string_view bad_delta = "CLIENT_ERROR invalid numeric delta argument\r\n";
inline constexpr std::string_view bad_chunk = "CLIENT_ERROR bad data chunk\r\n";
inline constexpr std::string_view not_a_number = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
inline constexpr std::string_view no_flush = "CLIENT_ERROR flush_all not allowed\r\n";
inline constexpr std::string_view too_large = "SERVER_ERROR object too large for cache\r\n";
inline constexpr std::string_view no_memory_store = "SERVER_ERROR out of memory storing object\r\n";
inline constexpr std::string_view no_memory = "SERVER_ERROR out of memory\r\n";
inline constexpr std::string_view no_memory_new = "SERVER_ERROR Out of memory allocating new item\r\n";
// Authentication.
inline constexpr std::string_view unauthenticated = "CLIENT_ERROR unauthenticated\r\n";
inline constexpr std::string_view auth_bad_end = "CLIENT_ERROR bad command line termination\r\n";
inline constexpr std::string_view auth_bad_token = "CLIENT_ERROR bad authentication token format\r\n";
inline constexpr std::string_view auth_failure = "CLIENT_ERROR authentication failure\r\n";
// Meta.
inline constexpr std::string_view duplicate_flag = "CLIENT_ERROR duplicate flag\r\n";
inline constexpr std::string_view invalid_flag = "CLIENT_ERROR invalid flag\r\n";
inline constexpr std::string_view invalid_or_duplicate_flag = "CLIENT_ERROR invalid or duplicate flag\r\n";
inline constexpr std::string_view bad_token = "CLIENT_ERROR bad token in command line format\r\n";
inline constexpr std::string_view bad_key = "CLIENT_ERROR error decoding key\r\n";
inline constexpr std::string_view bad_mode_length = "CLIENT_ERROR incorrect length for M token\r\n";
inline constexpr std::string_view bad_initial = "CLIENT_ERROR invalid numeric initial value\r\n";
inline constexpr std::string_view bad_meta_delta = "CLIENT_ERROR invalid numeric delta value\r\n";
inline constexpr std::string_view bad_set_mode = "CLIENT_ERROR invalid mode for ms M token\r\n";
inline constexpr std::string_view bad_arithmetic_mode = "CLIENT_ERROR invalid mode for ma M token\r\n";
inline constexpr std::string_view opaque_too_long = "CLIENT_ERROR opaque token too long\r\n";
inline constexpr std::string_view flags_are_too_long = "CLIENT_ERROR options flags are too long\r\n";
inline constexpr std::string_view flags_too_long = "CLIENT_ERROR options flags too long\r\n";
// Config.
inline constexpr std::string_view config_read_only = "CLIENT_ERROR config is read-only here\r\n";
inline constexpr std::string_view config_too_large = "CLIENT_ERROR config values have at most 16384 bytes\r\n";
// Administration.
inline constexpr std::string_view no_shutdown = "ERROR: shutdown not enabled\r\n";
inline constexpr std::string_view no_watch = "CLIENT_ERROR watch commands not allowed\r\n";
inline constexpr std::string_view no_cachedump = "CLIENT_ERROR stats cachedump not allowed\r\n";
inline constexpr std::string_view bad_detail = "CLIENT_ERROR usage: stats detail on|off|dump\r\n";
inline constexpr std::string_view bad_slab_id = "CLIENT_ERROR Illegal slab id\r\n";
inline constexpr std::string_view no_metadump = "ERROR metadump not allowed\r\n";
inline constexpr std::string_view dump_busy = "BUSY currently processing crawler request\r\n";
inline constexpr std::string_view bad_class = "BADCLASS invalid class id\r\n";
inline constexpr std::string_view watcher_failed = "WATCHER_FAILED failed to add log watcher\r\n";
inline constexpr std::string_view too_many_watchers = "WATCHER_TOO_MANY log watcher limit reached\r\n";
inline constexpr std::string_view bad_shutdown = "CLIENT_ERROR invalid shutdown mode\r\n";
inline constexpr std::string_view reassign_busy = "BUSY currently processing reassign request\r\n";
inline constexpr std::string_view reassign_bad_class = "BADCLASS invalid src or dst class id\r\n";
inline constexpr std::string_view reassign_no_spare = "NOSPARE source class has no spare pages\r\n";
inline constexpr std::string_view reassign_same = "SAME src and dst class are identical\r\n";
inline constexpr std::string_view lru_shares_too_large = "ERROR hot and warm pcts must not exceed 80\r\n";
inline constexpr std::string_view lru_age_too_small = "ERROR hot/warm age factors must be greater than 0\r\n";
inline constexpr std::string_view no_crawler = "CLIENT_ERROR lru crawler disabled\r\n";
inline constexpr std::string_view crawler_error = "ERROR an unknown error happened\r\n";
inline constexpr std::string_view nothing_to_crawl = "NOTSTARTED no items to crawl\r\n";
inline constexpr std::string_view no_crawler_start = "ERROR failed to start lru crawler thread\r\n";
inline constexpr std::string_view crawler_sleep_too_long = "CLIENT_ERROR sleep must be one second or less\r\n";
inline constexpr std::string_view no_reassign = "CLIENT_ERROR slab reassignment disabled\r\n";
inline constexpr std::string_view memory_limit_too_small = "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
inline constexpr std::string_view memory_limit_in_bytes =
    "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
inline constexpr std::string_view memory_limit_refused = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
}  // namespace line

// Tokens longer than this are refused (with their O).
inline constexpr std::size_t opaque_bytes_max = 32;

}  // namespace tandem::codec
