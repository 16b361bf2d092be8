// The fast lane: plain reads and sets from their bytes to the bytes of their replies, ahead of the parser and the
// executor.
//
// It takes `get`, `gets` (of any number of keys), `mg key v`, `mg key v K`, `set` with or without noreply, and `ms key
// bytes` with or without T of the text protocol, and GET, GETQ, GETK, GETKQ, SET and SETQ (without a CAS id) of the
// binary one, from the input of many connections, and writes the replies straight into an Output: the same bytes as the
// general path (codec/, pipeline/) would. At anything else in a connection's input (another command, a line that is
// not plain or not whole, a value that is not whole; an item that has expired, been flushed, is stale, huge or long; a
// set for which no slot or no cell is at hand) it stops there, having done nothing of that command, and the general
// path goes on from `rest`.
//
// Commands take effect in the order of the input: each get copies its value when its turn comes, and each set is done
// then, in place (docs/decisions/0026) or beside the old item. A location that was found before another command's set
// is only a candidate: whoever uses it looks at the item's state and key, and asks the index if these are not what they
// should be.
//
// Eight queries are a strip, and a strip is a few columns of a ring, with no query or result objects. While one strip
// is answered, the one behind it has its second buckets searched, the next its first buckets, the next is hashed and
// its buckets are prefetched, and the last is parsed: so what one stage prefetches arrives while others work
// (interleaving as of P. Menon et al., Relaxed operator fusion, VLDB 2017, and of docs/decisions/0006-strips.md).
//
// Source: DIDO III-A (the tasks it fuses); MemC3 3 (a read is a tag compare and a key compare). Decision 27.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "codec/protocol.hpp"
#include "task/context.hpp"

namespace tandem {

namespace lane {
struct State;
struct Ops;
}  // namespace lane

// So many bytes behind a segment's end can be read. What they say does not matter.
inline constexpr std::size_t lane_padding_bytes = 64;

enum class LaneCommand : std::uint8_t {
  get,
  gets,
  meta_read,
  meta_read_key,
  binary_read,
  // From here on they are sets.
  set,
  meta_store,
  binary_store
};
inline constexpr std::size_t lane_command_count = 8;

// One connection's input, and what became of it.
struct LaneSegment {
  // REQUIRES: [begin, end + lane_padding_bytes) is readable; `begin` is where a line begins, or a packet
  // (Parser::begins()).
  const char* begin;
  const char* end;
  bool binary;

  // Set by Lane::run(). Where the first command begins that was not answered; `end`: all were.
  const char* rest = nullptr;
  // Its replies in the Output, if the two differ.
  std::size_t output_begin = 0, output_end = 0;
  // Commands answered, quiet ones too, by kind; and their keys, those of sets, too.
  std::array<std::uint32_t, lane_command_count> commands{};
  std::uint32_t queries = 0;
  // The general path has to go on from `rest`.
  bool stopped = false;
};

// One worker's lane. Thread safety: one thread at a time, that of the context.
class Lane {
 public:
  // Both outlive the lane. instructions: by name, for tests; empty: those of the index's search (Index::lanes()).
  // Throws std::invalid_argument for a name that this processor or this program does not have.
  Lane(Context& context, const ProtocolOptions& options, std::string_view instructions = {});
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Whether a run may begin: the index is a cuckoo one, the host has it, and nobody is to be told of single look-ups.
  bool may_run() const noexcept;

  // Answers the segments in order, in one epoch. Ends early, between two commands, when `out` holds output_bytes_max or
  // more, or sets have retired so much memory that an epoch should end: returns how many segments are done with, so
  // that the next one is to be offered again from its `rest` on, when the output has been sent. `time_parse`: PP is
  // timed and counted, too (the other tasks are in a sample of the runs, as batches are). keys: nullptr, or receives
  // the keys asked for; they lie in the input. REQUIRES: may_run(), no epoch of the context's. Throws std::bad_alloc as
  // Output does; the epoch has ended then, and nothing of the segments is to be used again.
  std::size_t run(std::span<LaneSegment> segments, Output& out, std::size_t output_bytes_max, bool time_parse = false,
                  std::vector<std::string_view>* keys = nullptr);

  // "scalar", "avx2", "avx512", "avx512-vaes", "neon".
  std::string_view instructions() const noexcept;

 private:
  Context& context_;
  const lane::Ops& ops_;
  std::unique_ptr<lane::State> state_;
};

}  // namespace tandem
