// The lane executes requests from their bytes to the bytes of their replies.
//
// Plain commands are parsed by vectors and have columns of their own. Text protocol: `get`, `gets` (of any number of
// keys), `mg key v`, `mg key v K`, `set` with or without noreply, and `ms key bytes` with or without T. Binary
// protocol: GET, GETQ, GETK, GETKQ, SET and SETQ without a CAS id. Of any other command the parser (codec/) makes a
// query, a row of the strip, which is executed in its turn by the operations of the general path (task/), and answered
// by its writer. So is a plain read whose item has expired, been flushed, is stale or huge, or has a value that is
// pinned. The lane reads the input of many connections and appends the replies to an Output: the same bytes as the
// general path writes.
//
// The lane stops in a connection's input: before a control command, one that authenticates or closes, a large value
// that has not arrived, a command that is not complete, and one for which no slot or no cell is at hand. Nothing of
// that command has been done. Outside the run's epoch its owner takes that command (take()), executes it
// (execute_taken()), and offers the rest again.
//
// Commands take effect in the order of the input: a get copies its value in its turn, and a set is executed in its
// turn, in place (docs/decisions/0026) or beside the old item. A location found earlier is only a candidate, because
// another set may have replaced the item since. The stage that uses it checks the item's state and key, and asks the
// index if they do not match.
//
// While workers meet at popular keys, a set that a later query of the ring overwrites is answered and not executed
// (defer-inl.hpp): it takes effect just before that one, perhaps behind what its client has sent in between for other
// keys. When run() returns, all that it has answered has taken effect.
//
// Eight queries are a strip: columns in a ring, without query or result objects. The stages overlap. Over a cuckoo
// index strip k is parsed in one turn, strip k-1 is hashed and its buckets are prefetched, strip k-2 has its first
// buckets searched, strip k-3 its second ones, and strip k-4 is answered. Other kinds have other stages, further apart.
// So a stage's prefetches arrive while other stages work (interleaving after P. Menon et al., Relaxed operator fusion,
// VLDB 2017, and docs/decisions/0006-strips.md).
//
// A device can fill strips, too. Requests for keys that it has located (frames/located_keys.hpp) are neither parsed nor
// hashed nor searched for; of a set, what follows the key is parsed. A run of requests that it has answered
// (frames/frame_runs.hpp) takes the place of one query, and its replies are appended in its turn. What it has left is
// parsed between them. Or devices are given a list of the keys of any commands (collect()): the same parser comes to
// the same queries again, and takes candidates by their number.
//
// Where devices alone have the index, the lane stops before a query for which they have not searched. A miss is final
// when neither the overlay nor the key's stripe knows better (docs/decisions/0020).
//
// A datagram is a segment, too. Each of its commands has a message of its own, which begins with the datagram's frame.
// Its first command may be plain; further ones are rows, ahead of which LaneOwner is asked.
//
// Source: DIDO III-A (the tasks it fuses); MemC3 3 (a read is a tag compare and a key compare). Decision 27.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/key_sample.hpp"
#include "codec/protocol.hpp"
#include "frames/frame_runs.hpp"
#include "frames/located_keys.hpp"
#include "query/opcode.hpp"
#include "task/context.hpp"

namespace tandem {

namespace lane {
struct State;
struct Ops;
}  // namespace lane

// Bytes behind a segment's end that must be readable, with any content.
inline constexpr std::size_t lane_padding_bytes = 64;

enum class LaneCommand : std::uint8_t {
  get,
  gets,
  meta_read,
  meta_read_key,
  binary_read,
  // From here on: sets.
  set,
  meta_store,
  binary_store
};
inline constexpr std::size_t lane_command_count = 8;

// The input of one connection, or a datagram, and the result of a run over it.
struct LaneSegment {
  // REQUIRES: [begin, end + lane_padding_bytes) is readable, and the parser is to be offered the bytes from `begin` on
  // next. It speaks text, or it is `binary` (Parser::speaks()), and outlives the runs.
  const char* begin;
  const char* end;
  Parser* parser;
  bool binary;
  // It continues the stream of the segment before it, as what threads give each other in turn: it is answered if the
  // lane has answered all of that one.
  bool follows = false;
  // `begin` is not where a command begins (Parser::begins_command()).
  bool within_command = false;

  // Set by Lane::run(): where the first unanswered query begins, or the incomplete command; `end`: all are answered.
  // The parser is to be offered the bytes from there on next.
  const char* rest = nullptr;
  // Its replies in the Output, and what is spliced into them: a device's, which last until its flight ends. Of a
  // datagram: its last message.
  std::size_t output_begin = 0, output_end = 0;
  std::uint32_t externals_begin = 0, externals_end = 0;
  // Commands executed, quiet ones and a device's included, by kind; `queries` counts their keys.
  std::array<std::uint32_t, lane_command_count> commands{};
  std::uint32_t queries = 0;
  std::uint32_t rows = 0;       // keys, and commands without one, of commands that are not plain
  std::uint32_t row_metas = 0;  // of them, those of meta commands
  // The command at `rest` cannot be executed in the lane. Set ahead of a run, which keeps it, where the owner must act
  // first.
  bool stopped = false;
  bool left = false;             // the same, for its kind
  bool incomplete = false;       // there is no whole command at `rest`
  bool turn_ended = false;       // the rest waits for the next turn
  std::uint32_t first_key = 0;   // number of its first query among those of Lane::collect()
  std::uint64_t turn_begin = 0;  // in ticks: when its first row was executed; 0: none has been
  const char* frame = nullptr;   // of a datagram: what its messages begin with (codec/udp.hpp); nullptr: a stream

  // Whether the last run has answered all of it.
  bool is_answered() const noexcept { return rest == end && !stopped; }
  bool has_replies() const noexcept { return output_begin != output_end || externals_begin != externals_end; }
  // Externals [from, to) of the Output are its, behind those that it has.
  void take_externals(std::size_t from, std::size_t to) noexcept {
    if (externals_begin == externals_end) externals_begin = static_cast<std::uint32_t>(from);
    externals_end = static_cast<std::uint32_t>(to);
  }
  void forget_replies(const Output& out) noexcept {
    output_begin = output_end = out.size();
    externals_begin = externals_end = static_cast<std::uint32_t>(out.externals().size());
  }
  // Prepares what is left for another run, which continues the message of a datagram's command of which keys are left.
  void resume() noexcept {
    const LaneSegment before = *this;
    const Parser::Speaks speaks = parser->speaks();
    *this = {.begin = rest,
             .end = end,
             .parser = parser,
             .binary = parser->has_begun() ? speaks == Parser::Speaks::binary : binary,
             .follows = follows,
             .within_command = !parser->begins_command(),
             .rest = rest,
             .stopped = speaks == Parser::Speaks::neither && parser->has_begun(),
             .first_key = before.first_key + before.queries + before.rows,
             .turn_begin = turn_begin,
             .frame = frame};
    if (frame == nullptr || !within_command) return;
    output_begin = before.output_begin;
    output_end = before.output_end;
    externals_begin = before.externals_begin;
    externals_end = before.externals_end;
  }
};

// Whom the lane asks about the messages of datagrams, and tells of single requests.
class LaneOwner {
 public:
  // Before a row of the segment. begins: the row begins another command, so that the segment's message is whole: it is
  // kept, or taken off the output. False: nothing more of the segment is answered. Throws std::bad_alloc.
  virtual bool before_row(LaneSegment& segment, bool begins) = 0;
  // Only of runs of rows alone: the query has been answered, in the epoch that still lasts.
  virtual void answered(const LaneSegment& segment, const Query& query, const Result& result) = 0;

 protected:
  ~LaneOwner() = default;
};

// A command that is not plain: its segment's number in the run, and of its last query what command_of() needs.
struct LaneRow {
  std::uint32_t segment;
  Opcode opcode;
  StoreMode mode;
  std::uint16_t options;
  bool with_cas;
};

// One per worker. Thread safety: one thread at a time, that of the context.
class Lane {
 public:
  // REQUIRES: context and options outlive the lane. instructions: the name of an instruction set, for tests; empty:
  // that of the index's search (Index::lanes()). Throws std::invalid_argument for a name that this processor or this
  // program does not have.
  Lane(Context& context, const ProtocolOptions& options, std::string_view instructions = {});
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // For the following runs: a device's answers to the segments' input, or keys that it has located there; nullptr:
  // none. REQUIRES: at most one of them; for located keys the index is a CuckooIndex; an epoch that was entered before
  // the device searched lasts as long as these runs. A run ends a flight's epoch (InFlight::let_go()) only where it
  // waits for an index that comes back from a lost device, and asks for no candidate then.
  void set_answers(FrameRuns* runs, LocatedKeys* located) noexcept;

  // After so much time a stream's turn is over, before its next row. The time begins with the first one.
  void set_turn(std::uint64_t ticks) noexcept;

  // The same of keys that devices have searched for by collect(); nullptr: none. REQUIRES: the index is a CuckooIndex.
  void set_found(const Batch* found) noexcept;

  // Where devices alone have the index: the following runs answer the segments' queries of hot keys, and stop each
  // segment before another one, until the next call of these. False: no key is hot.
  bool set_hot() noexcept;

  // Of segments that are datagrams, and of runs of rows alone; outlives the runs.
  void set_owner(LaneOwner* owner) noexcept;

  // Whether the following runs make rows of all commands, and tell the owner of each.
  void set_rows_only(bool rows_only) noexcept;

  // For tests: sets that a later one overwrites are deferred even if no other worker sets their keys.
  void always_defer() noexcept;

  // Whether a run may begin: the index is on the host, or devices have located or found keys.
  bool may_run() const noexcept;

  // Answers the segments in order, in one epoch. Ends early, between two queries, when `out` holds output_bytes_max or
  // more, or when sets have retired so much memory that an epoch should end. Returns the number of finished segments:
  // once the output has been sent, the caller offers the next one again from its `rest` on. time_parse: also times and
  // counts PP (the other tasks are timed in a sample of the runs, as in batches). keys: nullptr, or is offered the keys
  // requested, as views of the input. REQUIRES: may_run(), the context is in no epoch. Throws std::bad_alloc as Output
  // does: the epoch has ended then, and the segments must not be used again.
  std::size_t run(std::span<LaneSegment> segments, Output& out, std::size_t output_bytes_max, bool time_parse = false,
                  KeySample* keys = nullptr);
  // The commands that are not plain of the last run, or of execute_taken(), in order.
  std::span<const LaneRow> rows() const noexcept;

  // Puts the segments' keys into the batch, which is empty, as far as it has room; a command without a key has a query,
  // too. Each segment then begins with its first query, as after resume(). Keys may lie in memory that lasts until the
  // next run. REQUIRES: as run().
  void collect(std::span<LaneSegment> segments, Batch& batch) noexcept;
  // Has devices that alone have the index search for the first keys of the segments, and waits. The next run takes what
  // they have found. False: the index is on the host again, or there is no memory. REQUIRES: no epoch.
  bool ask(std::span<LaneSegment> segments) noexcept;
  // What they have found is not used any more.
  void end_asking() noexcept;

  // --- one command outside a run

  // Parses the next query of the segment, from its rest on, and moves that.
  ParseStop take(LaneSegment& segment) noexcept;
  // Where the parser puts the end of a large value. What it has taken: at most one query.
  Batch& taken() noexcept;
  bool has_taken() const noexcept;
  // Executes it alone (task::execute_alone()), and appends its reply to the output and to the segment's. Throws
  // std::bad_alloc. REQUIRES: has_taken(), no control query.
  void execute_taken(LaneSegment& segment, Output& out);

  // "scalar", "avx2", "avx512", "avx512-vaes", "neon".
  std::string_view instructions() const noexcept;

 private:
  Context& context_;
  const lane::Ops& ops_;
  std::unique_ptr<lane::State> state_;
};

}  // namespace tandem
