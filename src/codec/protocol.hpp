// The memcached protocols - text, meta and binary - as bytes <-> queries and replies. No sockets, no threads.
//
// The reference is memcached 1.6.18, to the byte; docs/protocol.md lists its quirks and where Tandem departs from it.
// One Parser belongs to one connection and keeps what spans packets: swallowed data blocks, a half-parsed multiget, a
// large value being received.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "codec/admin.hpp"
#include "codec/config_store.hpp"
#include "codec/credentials.hpp"
#include "codec/dialect.hpp"
#include "codec/output.hpp"
#include "heap/heap.hpp"
#include "query/batch.hpp"

namespace tandem {

struct ProtocolOptions {
  std::uint64_t item_bytes_max = std::uint64_t{1} << 20;
  std::uint32_t line_bytes_max = 2048;  // without a line end after so many bytes only a get or gets may continue
  std::uint64_t multiget_line_bytes_max = std::uint64_t{16} << 20;
  std::uint32_t large_value_bytes = 8 * 1024;  // larger values that have not arrived whole are received straight into
                                               // the heap
  bool cas = true, flush_enabled = true;
  bool ordered = false;  // the index is: there are ranges
  ConfigAccess config = ConfigAccess::none;
  bool dump_enabled = true, watch_enabled = true;  // memcached's -X and -W turn them off
  bool shutdown_enabled = false;                   // -A
  bool lru_maintainer = true;                      // -o no_lru_maintainer turns `lru mode` and `temp_ttl` off
  std::string_view version = "1.6.18";             // of memcached's protocol: clients choose their features by it
  Dialect dialect = Dialect::automatic;            // memcached -B
  // Users of the binary protocol (-S), and of text (-Y). When one of them is set, the protocol of the other one
  // is refused unless it is set, too.
  Credentials* sasl = nullptr;
  Credentials* auth_file = nullptr;

  bool takes_text() const noexcept { return dialect != Dialect::binary && (auth_file != nullptr || sasl == nullptr); }
  bool takes_binary() const noexcept { return dialect != Dialect::text && (sasl != nullptr || auth_file == nullptr); }
};

enum class ParseStop : std::uint8_t {
  need_more,    // all complete commands were taken; the rest (from `consumed` on) must be offered again with more bytes
                // behind it
  batch_full,   // the batch has no place left; answer it, then call again with the bytes from `consumed` on
  large_value,  // a store with a large value that has not arrived completely: see Parser::large(); `consumed` is at the
                // first value byte
  close,        // input that memcached answers by closing: answer what is in the batch, then close
  quit,         // the same at the client's request
};

struct LargeValue {
  std::string_view key;  // the parser's own copy
  std::uint64_t value_bytes;
  std::uint32_t client_flags, expiry_s;
  bool binary_key;
  std::uint8_t line_end_bytes;  // behind the value: CR LF in the text protocol, nothing in the binary one
};

namespace codec {
class LineParser;
class PacketParser;

// What a connection of the binary protocol may do, a bit set.
namespace session {
inline constexpr std::uint8_t authenticated = 1 << 0;
inline constexpr std::uint8_t started = 1 << 1;  // an exchange is under way: SASL_STEP may follow
}  // namespace session
}  // namespace codec

class Parser {
 public:
  // REQUIRES: both outlive the parser.
  Parser(const ProtocolOptions& options, const Clock& clock) noexcept : options_(&options), clock_(&clock) {}

  // The client's protocol; neither: it has not chosen one yet, or must authenticate first.
  enum class Speaks : std::uint8_t { neither, text, binary };
  TD_INLINE Speaks speaks() const noexcept {
    if (TD_LIKELY(mode_ == Mode::text)) return Speaks::text;
    const bool may_ask = options_->sasl == nullptr || (session_ & codec::session::authenticated) != 0;
    return mode_ == Mode::binary && may_ask ? Speaks::binary : Speaks::neither;
  }
  // The client's first byte, ahead of the first parse(), which else chooses the protocol. REQUIRES: speaks() is not
  // known yet.
  void begin(char first) noexcept { choose_mode(first); }
  // Whether it has been chosen.
  bool has_begun() const noexcept { return mode_ != Mode::undecided; }
  // Whether the next offered byte begins a command. If not, it continues one that is incomplete or of which keys are
  // left, or belongs to a value that is dropped.
  TD_INLINE bool begins_command() const noexcept {
    return TD_LIKELY((swallow_bytes_ | multiget_bytes_ | scanned_bytes_ | wanted_bytes_) == 0);
  }
  // The same for [begin, end), which is offered next: a command that was incomplete begins there again, if its line, or
  // all of it, is there now.
  TD_INLINE bool begins_command(const char* begin, const char* end) noexcept {
    return begins_command() || begins_again(begin, end);
  }

  // What the next offered byte belongs to, for `stats conns`: a command, a value that is kept until it is complete, or
  // a value that is dropped.
  enum class Within : std::uint8_t { command, value, dropped_value };
  Within within() const noexcept {
    if (TD_LIKELY((swallow_bytes_ | wanted_bytes_) == 0)) return Within::command;
    return swallow_bytes_ != 0 ? Within::dropped_value : Within::value;
  }

  // Takes as many commands from [begin, end) as are complete and fit, appending queries; of a multiget, a run of its
  // keys may be taken. Sets `consumed` to the bytes it has finished with. Queries point into [begin, end), which must
  // stay until they are answered, and into the batch's input. Takes time linear in the bytes that are new since the
  // last call, for any cuts.
  ParseStop parse(const char* begin, const char* end, Batch& batch, std::size_t& consumed);

  // After large_value. Either finish_large() when value and line end were received into the heap at `l` (ok: the line
  // end, if there is to be one, is CR LF; if not, the error reply is appended and the caller keeps and abandons `l`),
  // or refuse_large() when there is no memory: the reply is appended and the value, line end included, is swallowed by
  // the following parse() calls. Both append a query. REQUIRES: !batch.full(), and that the batch with the
  // last finished or refused large value was executed before.
  const LargeValue& large() const noexcept;
  void finish_large(Batch& batch, Location l, bool ok);
  void refuse_large(Batch& batch);

  // Forgets what was parsed from `query` on, a pending large value and swallowing included, because the connection
  // cannot take the answer now: the next parse() is to be offered the input from the returned address on (where the
  // query's line starts, or its key when the query is a later one of a multiget: then the parser is inside that line
  // again) and yields the same queries again.
  // REQUIRES: `query` came from this parser's parse(), is not prefilled, and its input is still there.
  const char* rewind(const Query& query) noexcept;
  // The same where the next offered byte begins a command.
  void rewind_to_command() noexcept { swallow_bytes_ = multiget_bytes_ = scanned_bytes_ = wanted_bytes_ = 0; }
  // Of the `bytes` that are offered next: how many belong to a value that is dropped. They need not be offered.
  std::uint64_t drop(std::uint64_t bytes) noexcept {
    const std::uint64_t dropped = std::min(swallow_bytes_, bytes);
    swallow_bytes_ -= dropped;
    return dropped;
  }

 private:
  friend class codec::LineParser;
  friend class codec::PacketParser;

  // The first byte of a connection decides (choose_mode()); authenticate: text, before authentication.
  enum class Mode : std::uint8_t { undecided, text, authenticate, binary, refused };

  // A store with a large value that is arriving: the query without its value, and copies of the bytes it points to.
  struct Large {
    Query query;
    LargeValue value;
    std::unique_ptr<char[]> copies;
  };
  struct Larges {
    Large of[2];  // the older one's query may still wait in a batch
    unsigned now = 0;
  };

  bool begins_again(const char* begin, const char* end) noexcept;
  ParseStop parse_other(const char* begin, const char* end, Batch& batch, std::size_t& consumed);
  void choose_mode(char first) noexcept;
  ParseStop authenticate(const char* begin, const char* end, Batch& batch, std::size_t& consumed);
  // Copies the bytes that the query points to, because its value follows later.
  void begin_large(const Query& query, std::uint64_t value_bytes, std::uint8_t line_end_bytes);

  const ProtocolOptions* options_;
  const Clock* clock_;
  std::unique_ptr<Larges> large_;
  std::uint64_t swallow_bytes_ = 0;  // input to drop
  // Inside a multiget: from its next key to the line's end, and what follows that up to the next line.
  std::uint64_t multiget_bytes_ = 0;
  std::uint32_t multiget_tail_bytes_ = 0;
  std::uint32_t multiget_expiry_s_ = 0;
  std::uint16_t multiget_options_ = 0;
  std::uint8_t multiget_reply_ = 0;
  Mode mode_ = Mode::undecided;
  std::uint8_t session_ = 0;
  std::uint64_t scanned_bytes_ = 0;  // of the input's first line: no line end in them
  std::uint64_t wanted_bytes_ = 0;   // the input's first command is so long
};

// A request for the log: the first KiB of its line, or opcode and key, with bytes that a terminal could interpret as
// \xNN.
std::string request_text(const Query& query);

// Receives the lines of `stats`: STAT name value.
class StatSink {
 public:
  virtual ~StatSink() = default;
  virtual void stat(std::string_view name, std::string_view value) = 0;
};

// The server's side of control queries.
class ServerControl {
 public:
  virtual ~ServerControl() = default;
  virtual void flush_all(std::uint32_t at_s) = 0;  // 0: now
  // group: "" (general), settings, items, slabs, sizes, conns, reset, ... False: no such group.
  virtual bool stats(std::string_view group, StatSink& sink) = 0;
  virtual void set_verbosity(unsigned level) = 0;
  // Why reloading the certificates failed, in one line; empty: it succeeded.
  virtual std::string refresh_certificates() = 0;
  virtual Administration& administration() = 0;
  virtual ConfigStore& config() = 0;
};

// Executes an Opcode::control query and writes its reply, or returns the reply to stream.
StreamRequest execute_control(const Query& query, const ProtocolOptions& options, ServerControl& server, Output& out);

}  // namespace tandem
