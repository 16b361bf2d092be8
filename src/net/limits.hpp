// The bounds of workers and connections, each with its reason. docs/memory.md adds them up to the server's fixed
// memory.
#pragma once
#include <cstddef>
#include <cstdint>

#include "codec/output.hpp"
#include "codec/udp.hpp"
#include "query/batch.hpp"
#include "work/output_range.hpp"

namespace tandem::net {

// --- per worker
// Queries per batch; larger ones only push the columns (128 bytes a query) out of L2.
inline constexpr std::uint32_t batch_queries = 128 * strip_queries_max;
// The same beside a device: a round trip needs many queries to be worth its time.
inline constexpr std::uint32_t device_batch_queries = 4 * batch_queries;
// Ready connections per pass. All of a pass are received, executed together and then answered: enough to keep strips
// following each other, few enough that the first does not wait long for its answer.
inline constexpr int events_per_pass = 128;
// Input of one pass, in the batch that it fills. Held in L2.
inline constexpr std::size_t input_arena_bytes = 256 * 1024;
// So much an output buffer can hold: what was below the limit, and the copied values of one more strip with their
// headers.
inline constexpr std::size_t output_bytes_max = output_flush_bytes + strip_queries_max * (copied_value_bytes_max + 512);
// An output buffer that grew beyond this gives its memory back after the pass.
inline constexpr std::size_t output_bytes_kept = 1024 * 1024;

// --- per connection
// Bytes received at a time: one connection's share of a pass.
inline constexpr std::size_t receive_bytes_max = 16 * 1024;
// The same behind a value that was received into its slot. Clients that send such values send more of them: of the next
// one little more than its command is received beside its slot, and copied there.
inline constexpr std::size_t receive_command_bytes_max = 1024;
// Kept input from this size on is a long line: it is received into its own buffer and counts towards kept_bytes_total.
inline constexpr std::size_t long_input_bytes = 64 * 1024;
// Of a large value, received straight into its slot.
inline constexpr std::size_t receive_value_bytes_max = 256 * 1024;
// Messages of one datagram: requests_per_event (memcached's -R counts commands that its loop handles one by one; ours
// come in batches, so its default of 20 stands for 1,280).
inline constexpr std::uint64_t queries_per_request_of_event = 64;
// A connection's turn in a batch, checked between two strips. A thousand small requests take a fiftieth of it, one
// append to a value of 1 MB some hundred microseconds.
inline constexpr double turn_ns = 10e6;
// Processor time of all of a pass's datagrams together, after a turn's time of the pass. The rest of a datagram, behind
// its first eight queries, is dropped then. Longer than a turn, because a datagram cannot be resumed.
inline constexpr std::uint64_t datagrams_ns = 40'000'000;
// Segments per sendmsg.
inline constexpr std::size_t send_segments_max = 64;

// --- streams (dumps, watch)
// A pass sends a piece of so many streams, each of so many bytes or examined slots. They delay other clients by some
// tens of microseconds.
inline constexpr std::size_t streams_per_pass = 4;
inline constexpr std::size_t stream_piece_bytes = 8 * 1024;
inline constexpr std::uint32_t stream_piece_slots = 128;

// --- all connections together
// Output that clients have not read, copied into their connections' buffers. Past it the connection with the most is
// closed.
inline constexpr std::uint64_t unsent_bytes_total = std::uint64_t{64} * 1024 * 1024;
// Long lines that have not arrived whole (a get of very many keys), in buffers of up to twice their size. Past it the
// connection that asks for more is closed.
inline constexpr std::uint64_t kept_bytes_total = std::uint64_t{64} * 1024 * 1024;
// Values that unsent output pins in the heap, and values not wholly received that fill slots: each at most this part of
// the memory limit, so that the store can store although clients neither read nor send.
inline constexpr std::uint64_t pinned_share = 2;
inline constexpr std::uint64_t filling_share = 2;
// When such a limit is reached, a connection that has neither read nor sent for longer is closed. After a pass that
// took longer than the second one, none is closed for as long: what clients sent meanwhile is still to be received.
inline constexpr std::uint32_t stalled_after_s = 2;
inline constexpr double long_pass_ns = 1e9;

// --- UDP
inline constexpr unsigned datagrams_per_pass = 64;
// The largest UDP payload is 65,507 bytes; 17 more lines per slot spread the slots' first lines over the cache's sets.
inline constexpr std::size_t datagram_slot_bytes = 64 * 1024 + 17 * 64;
// Replies to one datagram beyond it are dropped and counted. Memcached's default largest item fits.
inline constexpr std::size_t udp_reply_bytes_max = 2 * 1024 * 1024;
inline constexpr std::size_t udp_payload_bytes_max = udp_datagram_bytes_max - udp_frame_bytes;

// --- TLS
// The largest record that TLS has.
inline constexpr std::size_t tls_record_bytes_max = 16 * 1024;
// Input that a call may take beside the data it is asked for: record headers, and what a client can send without data.
inline constexpr std::size_t tls_input_bytes_max = 32 * 1024;
// Handshake steps of a worker's pass. One costs up to a millisecond of processor time (the signature with an RSA key),
// and established connections wait for it.
inline constexpr unsigned tls_handshake_steps_per_pass = 4;
// Handshakes that a worker has begun and not finished, each 42 KiB: past it the oldest is closed. A client that
// has sent nothing is not counted: it is a quiet connection, closed by handshake_timeout_s.
inline constexpr std::size_t tls_handshakes_max = 256;
// Of a client's certificates: ten of the largest in use.
inline constexpr long tls_client_chain_bytes_max = 32 * 1024;
// Sessions that OpenSSL keeps for clients of TLS 1.2 that take no tickets.
inline constexpr long tls_sessions_cached_max = 4096;

// --- accepting
inline constexpr int accepts_per_wakeup = 64;
// When descriptors run out, accepting is tried again after so long.
inline constexpr int accept_retry_ms = 100;

}  // namespace tandem::net
