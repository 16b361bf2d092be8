// One call of Parser::parse(): walks the input line by line. The common commands in their plain form are recognised in
// one pass over their bytes (fast_lines.cpp); everything else goes through line(), which finds the
// line's end first and follows memcached word by word.
#pragma once
#include <algorithm>

#include "codec/protocol.hpp"
#include "codec/reply.hpp"
#include "codec/tokens.hpp"

namespace tandem::codec {

class LineParser {
 public:
  enum class Step : std::uint8_t { next, need_more, batch_full, large_value, close, quit };
  // Lines that are recognised in groups: "get key", "mg key v", "mg key v K".
  enum class PlainGet : std::uint8_t { text, meta, meta_with_key };

  LineParser(Parser& parser, const char* begin, const char* end, Batch& batch) noexcept
      : parser_(parser),
        options_(*parser.options_),
        clock_(*parser.clock_),
        batch_(batch),
        begin_(begin),
        end_(end),
        p_(begin) {}

  ParseStop run();
  const char* position() const noexcept { return p_; }

 private:
  // --- fast_lines.cpp
  bool fast_get(const char* key, ReplyKind reply);
  template <PlainGet Kind>
  bool fast_meta_get(const char* key_end) noexcept;
  template <PlainGet Kind>
  void run_of_plain_gets() noexcept;
  const char* plain_line_end(const char* p, std::uint16_t& options) const noexcept;
  template <class T>
  const char* plain_number(const char* p, T& to) const noexcept;
  bool fast_update(const char* key, StoreMode mode, std::uint16_t options);
  bool fast_text();
  bool fast_meta(const char* key_end, Step& step);
  template <PlainGet Kind>
  static void put_plain_get(Query& q, const char* line, const char* key, std::size_t key_bytes) noexcept;

  // --- framing: parser.cpp
  bool resume(Step& step);
  Step line();
  Step unfinished_line();
  Step dispatch();
  void drop_swallowed() noexcept;
  Step multiget(bool continues);
  // Commits the store query at batch.next() once its value of `bytes` behind the line has arrived. The query is
  // complete except for the value.
  Step take_value(Query& query, std::uint64_t bytes);
  Step refuse_too_large(const Query& query, std::uint64_t bytes);
  Step begin_large(const Query& query, std::uint64_t bytes);

  // --- text_parser.cpp
  Step text(std::string_view name);
  Step retrieve(const CommandRow& command, Tokens arguments);
  Step update(const CommandRow& command, const Words& words);
  Step remove(const Words& words);
  Step arithmetic(const CommandRow& command, const Words& words);
  Step touch(const Words& words);
  Step flush_all(const Words& words);
  Step verbosity(const Words& words);
  Step control(ReplyKind reply, bool no_reply);

  // --- config_lines.cpp
  Step config(const Words& words);
  Step config_set(const Words& words);
  Step skip_value(std::string_view text, bool no_reply, std::uint64_t bytes);

  // --- meta_parser.cpp
  Step meta(std::string_view name);
  // Its key ends at `flags`.
  Step meta_of(Form form, std::string_view key, const char* flags);
  Step meta_get(std::string_view key, const char* flags);
  Step meta_set(std::string_view key, const char* rest);
  Step meta_delete(std::string_view key, const char* flags);
  Step meta_arithmetic(std::string_view key, const char* flags);
  Step meta_debug(std::string_view key, const char* flags);

  // --- queries of the current line
  // The next query with its common fields set; the caller fills in the rest and commits.
  TD_INLINE Query& start(Opcode opcode, ReplyKind reply, std::uint16_t options) noexcept {
    Query& q = batch_.next();
    q.opcode = opcode;
    q.options = options;
    q.wire = p_;
    q.wire_bytes = static_cast<std::uint32_t>(line_end_ - p_);
    q.reply = static_cast<std::uint8_t>(reply);
    q.continues_line = 0;
    return q;
  }
  TD_INLINE void set_key(Query& q, std::string_view key) noexcept {
    q.key = key.data();
    q.key_bytes = static_cast<std::uint8_t>(key.size());
  }
  void set_no_key(Query& q) noexcept {
    q.key = p_;
    q.key_bytes = 0;
  }
  Step done() noexcept {
    p_ = next_;
    return Step::next;
  }
  Step commit() noexcept {
    batch_.commit();
    return done();
  }
  // Answers the line with `text`, without using the store.
  Step answer(std::string_view text, bool no_reply = false) noexcept {
    if (no_reply) return done();
    start_line(text);
    return commit();
  }
  Query& start_line(std::string_view text) noexcept {
    Query& q = start(Opcode::nothing, ReplyKind::line, 0);
    set_no_key(q);
    q.value = text.data();
    q.value_bytes = static_cast<std::uint32_t>(text.size());
    return q;
  }

  Parser& parser_;
  const ProtocolOptions& options_;
  const Clock& clock_;
  Batch& batch_;
  const char* const begin_;
  const char* const end_;
  const char* p_;                     // where the current line starts
  const char* line_begin_ = nullptr;  // of the current multiget
  // Of the current line: where its text ends (its line end, or a NUL before it), and where the next line starts.
  const char* line_end_ = nullptr;
  const char* next_ = nullptr;
  std::uint64_t scanned_bytes_ = 0;
};

}  // namespace tandem::codec
