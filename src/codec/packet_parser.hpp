// One call of Parser::parse() on a connection that speaks the binary protocol: walks the input packet by packet.
// A wrong header is answered without its body, so a client cannot make the server wait for, or keep, a body that the
// server will refuse.
#pragma once
#include "codec/binary.hpp"
#include "codec/protocol.hpp"
#include "codec/reply.hpp"

namespace tandem::codec {

class PacketParser {
 public:
  PacketParser(Parser& parser, const char* begin, const char* end, Batch& batch) noexcept
      : parser_(parser), options_(*parser.options_), clock_(*parser.clock_), batch_(batch), end_(end), p_(begin) {}

  ParseStop run();
  const char* position() const noexcept { return p_; }

  // Turns a store that cannot be executed into its answer. `why`: option::store_too_large or option::store_no_memory.
  static void refuse(Query& query, std::uint16_t why) noexcept;

 private:
  enum class Step : std::uint8_t { next, need_more, large_value, close, quit };

  void run_of_gets() noexcept;
  Step packet();
  Step get(const binary::Request& r, const binary::Rule& rule);
  Step touch(const binary::Request& r, const binary::Rule& rule);
  Step store(const binary::Request& r, const binary::Rule& rule);
  Step take_value(Query& q, const binary::Request& r);
  Step remove(const binary::Request& r, const binary::Rule& rule);
  Step arithmetic(const binary::Request& r, const binary::Rule& rule);
  Step flush(const binary::Request& r, const binary::Rule& rule);
  Step range(const binary::Request& r, const binary::Rule& rule);
  Step sasl(const binary::Request& r, binary::Form form);
  Step config(const binary::Request& r, const binary::Rule& rule);
  // Whether the server has requests of these forms, of those that it may lack.
  bool has(binary::Form form) const noexcept {
    return (form == binary::Form::range && options_.ordered) ||
           (form == binary::Form::config && options_.config != ConfigAccess::none);
  }

  // The packet's query with its common fields set; the caller fills in the rest and commits.
  TD_INLINE Query& start(Opcode opcode, ReplyKind reply, std::uint16_t options) noexcept;
  TD_INLINE void set_key(Query& q, const binary::Request& r) noexcept {
    q.key = extras() + r.extras_bytes;
    q.key_bytes = static_cast<std::uint8_t>(r.key_bytes);
  }
  TD_INLINE const char* extras() const noexcept { return p_ + binary::header_bytes; }
  // Of a get, which has a rule of its own.
  TD_INLINE static std::uint16_t quiet(const binary::Rule& rule) noexcept { return rule.quiet ? option::no_reply : 0; }
  TD_INLINE static bool returns_old(const binary::Rule& rule) noexcept {
    return (rule.options & option::returns_old) != 0;
  }
  TD_INLINE Step commit(const binary::Request& r) noexcept {
    batch_.commit();
    p_ += binary::header_bytes + r.body_bytes;
    return Step::next;
  }
  std::uint32_t expiry_s(std::uint32_t exptime) const noexcept {
    return exptime == 0 ? Clock::never : clock_.expiry_s(exptime);
  }
  // Answers without using the store; the caller then skips the packet.
  void answer(std::string_view text, binary::Status status, ReplyKind reply = ReplyKind::binary_status) noexcept;
  Step answer_and_close(std::string_view text, binary::Status status) noexcept;
  // Skips the packet, whether it has arrived or not.
  Step skip(const binary::Request& r) noexcept;
  Step drop_swallowed() noexcept;

  Parser& parser_;
  const ProtocolOptions& options_;
  const Clock& clock_;
  Batch& batch_;
  const char* const end_;
  const char* p_;  // where the current packet starts
};

}  // namespace tandem::codec
