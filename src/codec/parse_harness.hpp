// For tests and fuzzing: offers input to a Parser as a server does, in any cuts and through batches of any size, and
// records the queries. Every offered buffer is an allocation of exactly its size, so that AddressSanitizer detects
// reads past its end.
#pragma once
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/protocol.hpp"
#include "codec/reply.hpp"

namespace tandem::codec {

// All fields of a query, except the addresses of its bytes.
inline std::string text_of(const Query& q, std::string_view value) {
  std::string text = "op" + std::to_string(static_cast<int>(q.opcode)) + " reply" + std::to_string(q.reply);
  const auto put = [&text](const char* name, std::uint64_t n) { text += std::string(" ") + name + std::to_string(n); };
  put("options", static_cast<std::uint64_t>(q.options & ~unsigned{option::prefilled}));
  text += " key[" + std::string(q.key_view()) + "]";
  const ReplyKind reply = reply_of(q);
  if (reply == ReplyKind::line || reply == ReplyKind::authenticate || reply == ReplyKind::binary_status ||
      reply == ReplyKind::binary_auth) {
    text += " line[" + std::string(q.value, q.value_bytes) + "]";
  }
  if (reply == ReplyKind::binary_status || reply == ReplyKind::binary_auth) put("status", q.client_flags);
  if (is_binary(q)) {
    put("session", q.session);
    text += " wire[" + std::string(q.wire, q.wire_bytes) + "]";
  }
  switch (q.opcode) {
    case Opcode::store:
      put("mode", static_cast<std::uint64_t>(q.mode));
      put("flags", q.client_flags);
      put("expiry", q.expiry_s);
      text += " value[" + std::string(value) + "]";
      break;
    case Opcode::arithmetic:
      put("delta", q.delta);
      if (q.has(option::vivify)) text += " initial[" + std::string(q.value, q.value_bytes) + "]";
      break;
    case Opcode::touch:
      put("expiry", q.expiry_s);
      break;
    case Opcode::control:
      if (reply == ReplyKind::flush_all || reply == ReplyKind::binary_flush) put("at", q.expiry_s);
      if (reply == ReplyKind::verbosity) put("level", q.delta);
      break;
    default:
      break;
  }
  if (q.has(option::touch)) put("touch", q.expiry_s);
  if (q.has(option::vivify)) put("vivify", q.vivify_expiry_s);
  if (q.has(option::recache)) put("recache", q.recache_ttl_s);
  if (q.has(option::compare_cas)) put("cas", q.cas);
  if (reply >= ReplyKind::meta_get && reply <= ReplyKind::meta_arithmetic) {
    text += " wire[" + std::string(q.wire + q.wire_flags_at, q.wire_bytes - q.wire_flags_at) + "]";
  }
  return text;
}

class ParseHarness {
 public:
  explicit ParseHarness(const ProtocolOptions& options, std::uint32_t batch_capacity = 64)
      : parser_(options_at(options), clock()), batch_(batch_capacity) {}

  // The connection's next bytes.
  void offer(std::string_view bytes) {
    kept_ += bytes;
    while (!closed_) {
      if (receiving_ && !receive()) return;
      const std::size_t size = kept_.size();
      const std::unique_ptr<char[]> exact(new char[size]);
      std::memcpy(exact.get(), kept_.data(), size);
      std::size_t consumed = 0;
      const ParseStop stop = parser_.parse(exact.get(), exact.get() + size, batch_, consumed);
      TD_ASSERT(consumed <= size);
      if (on_batch) on_batch(parser_, batch_, exact.get(), size);
      const bool progressed = consumed != 0 || batch_.size() != 0;
      answer();
      kept_.erase(0, consumed);
      switch (stop) {
        case ParseStop::need_more:
          return;
        case ParseStop::batch_full:
          TD_ASSERT(progressed);
          break;
        case ParseStop::large_value: {
          const LargeValue& large = parser_.large();
          TD_ASSERT(large.value_bytes > large_value_bytes_);
          receiving_ = true;
          break;
        }
        case ParseStop::close:
        case ParseStop::quit:
          closed_ = true;
          queries.emplace_back("close");
          break;
      }
    }
  }

  bool closed() const noexcept { return closed_; }
  // Bytes that are not part of a complete command yet.
  std::size_t kept_bytes() const noexcept { return kept_.size(); }

  std::vector<std::string> queries;
  bool refuses_large = false;  // simulates lack of memory for large values
  // Called with each filled batch and the offered input.
  std::function<void(Parser&, Batch&, const char*, std::size_t)> on_batch;

 private:
  // Shared by all, because absolute times count from the second in which a clock was made.
  static const Clock& clock() {
    static Clock all;
    all.freeze_for_test(1000);
    return all;
  }
  const ProtocolOptions& options_at(const ProtocolOptions& options) {
    options_ = options;
    large_value_bytes_ = options.large_value_bytes;
    return options_;
  }

  // Of a large value. False: it has not arrived whole.
  bool receive() {
    const LargeValue& large = parser_.large();
    if (refuses_large) {
      parser_.refuse_large(batch_);
    } else {
      const auto bytes = static_cast<std::size_t>(large.value_bytes);
      const std::size_t end_bytes = large.line_end_bytes;
      if (kept_.size() < bytes + end_bytes) return false;
      value_ = kept_.substr(0, bytes);
      TD_ASSERT(large.key.size() <= key_bytes_max);
      parser_.finish_large(batch_, 1, end_bytes == 0 || kept_.compare(bytes, end_bytes, "\r\n") == 0);
      kept_.erase(0, bytes + end_bytes);
    }
    answer();
    receiving_ = false;
    return true;
  }

  void answer() {
    for (std::uint32_t i = 0; i < batch_.size(); ++i) {
      const Query& q = batch_.query(i);
      TD_ASSERT(q.key_bytes <= key_bytes_max && q.key != nullptr);
      const bool stores = q.opcode == Opcode::store;
      TD_ASSERT(!q.has(option::prefilled) || (stores && batch_.filled()[i] == 1));
      queries.push_back(text_of(q, !stores                    ? std::string_view{}
                                   : q.has(option::prefilled) ? std::string_view(value_)
                                                              : std::string_view(q.value, q.value_bytes)));
    }
    batch_.clear();
  }

  ProtocolOptions options_;
  Parser parser_;
  Batch batch_;
  std::string kept_, value_;
  std::uint64_t large_value_bytes_ = 0;
  bool receiving_ = false, closed_ = false;
};

}  // namespace tandem::codec
