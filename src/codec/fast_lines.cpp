// The common commands in their plain form, each recognised in one pass over its bytes.
#include <array>

#include "codec/ends.hpp"
#include "codec/line_parser.hpp"
#include "codec/scan.hpp"

namespace tandem::codec {
namespace {

// For longer ones a second pass costs more than waiting for their ends.
constexpr std::ptrdiff_t short_line_bytes = 80;

TD_INLINE bool is_meta_get(std::uint32_t word) noexcept {
  const auto letters = load<std::uint32_t>("\xff\xff\xff\0");
  return (word & letters) == load<std::uint32_t>("mg \0");
}

// Of meta commands with a key, by their second letters.
constexpr std::array<Form, 26> meta_forms = [] {
  std::array<Form, 26> all{};
  for (const CommandRow& row : commands) {
    if (row.name.size() == 2 && row.name[0] == 'm' && row.form != Form::meta_noop)
      all[static_cast<std::size_t>(row.name[1] - 'a')] = row.form;
  }
  return all;
}();
static_assert(Form{} == Form::none);

}  // namespace

ParseStop LineParser::run() {
  Step step = Step::next;
  if (TD_UNLIKELY(p_ == end_)) return ParseStop::need_more;
  bool fast = resume(step);
  while (step == Step::next) {
    if (p_ == end_) return ParseStop::need_more;
    if (TD_UNLIKELY(batch_.full())) return ParseStop::batch_full;
    if (TD_LIKELY(fast && end_ - p_ >= 7)) {
      const auto word = load<std::uint32_t>(p_);
      if (word == load<std::uint32_t>("get ")) {
        const char* const begin = p_;
        const std::uint32_t before = batch_.size();
        if (TD_LIKELY(fast_get(p_ + 4, ReplyKind::get))) {
          if (batch_.size() - before == 1 && p_ - begin <= short_line_bytes && end_ - p_ >= 4 &&
              load<std::uint32_t>(p_) == word)
            run_of_plain_gets<PlainGet::text>();
          continue;
        }
      } else if (is_meta_get(word)) {
        const char* const key_end = find_delimiter(p_ + 3, end_, begin_);
        if (fast_meta_get<PlainGet::meta>(key_end)) {
          run_of_plain_gets<PlainGet::meta>();
          continue;
        }
        if (fast_meta_get<PlainGet::meta_with_key>(key_end)) {
          run_of_plain_gets<PlainGet::meta_with_key>();
          continue;
        }
        if (TD_LIKELY(fast_meta(key_end, step))) continue;
      } else if (word == load<std::uint32_t>("set ")) {
        if (TD_LIKELY(fast_update(p_ + 4, StoreMode::set, 0))) continue;
      } else if (p_[0] == 'm' && p_[2] == ' ') {
        if (TD_LIKELY(fast_meta(find_delimiter(p_ + 3, end_, begin_), step))) continue;
      } else if (word == load<std::uint32_t>("gets") && p_[4] == ' ') {
        if (TD_LIKELY(fast_get(p_ + 5, ReplyKind::gets))) continue;
      } else if (fast_text()) {
        continue;
      }
    }
    fast = true;
    step = line();
    scanned_bytes_ = 0;
  }
  switch (step) {
    case Step::next:
    case Step::need_more:
      break;
    case Step::batch_full:
      return ParseStop::batch_full;
    case Step::large_value:
      return ParseStop::large_value;
    case Step::close:
      return ParseStop::close;
    case Step::quit:
      return ParseStop::quit;
  }
  return ParseStop::need_more;
}

template <LineParser::PlainGet Kind>
TD_INLINE void LineParser::put_plain_get(Query& q, const char* line, const char* key, std::size_t key_bytes) noexcept {
  constexpr bool is_meta = Kind != PlainGet::text, with_key = Kind == PlainGet::meta_with_key;
  constexpr std::ptrdiff_t flags_bytes = with_key ? 4 : is_meta ? 2 : 0;
  const auto wire_bytes = static_cast<std::uint32_t>(key - line + flags_bytes) + static_cast<std::uint32_t>(key_bytes);
  q.key = key;
  q.key_bytes = static_cast<std::uint8_t>(key_bytes);
  q.opcode = Opcode::get;
  q.options = with_key ? option::meta | option::caller_compares : is_meta ? option::meta : option::last_of_line;
  q.wire = line;
  q.wire_bytes = wire_bytes;
  q.reply = static_cast<std::uint8_t>(is_meta ? ReplyKind::meta_get : ReplyKind::get);
  q.continues_line = 0;
  // v returns nothing beside the value.
  if constexpr (is_meta) q.wire_flags_at = wire_bytes - (with_key ? static_cast<std::uint32_t>(flags_bytes) : 0);
}

// A line with a key that ends at `key_end`. False: nothing was taken.
template <LineParser::PlainGet Kind>
TD_INLINE bool LineParser::fast_meta_get(const char* key_end) noexcept {
  constexpr std::size_t behind_key = Kind == PlainGet::meta ? sizeof(" v\r\n") - 1 : sizeof(" v K\r\n") - 1;
  const char* const key = p_ + 3;
  const auto key_bytes = static_cast<std::size_t>(key_end - key);
  if (TD_UNLIKELY(key_bytes - 1 >= key_bytes_max || end_ - key_end < static_cast<std::ptrdiff_t>(behind_key)))
    return false;
  if constexpr (Kind == PlainGet::meta_with_key) {
    if (load<std::uint16_t>(key_end) != load<std::uint16_t>(" v")) return false;
  }
  constexpr const char* line_rest = Kind == PlainGet::meta ? " v\r\n" : " K\r\n";
  if (load<std::uint32_t>(key_end + behind_key - 4) != load<std::uint32_t>(line_rest)) return false;
  put_plain_get<Kind>(batch_.next(), p_, key, key_bytes);
  batch_.commit();
  p_ = key_end + behind_key;
  return true;
}

// Takes consecutive lines of this form, except the last ones of the input.
template <LineParser::PlainGet Kind>
TD_INLINE void LineParser::run_of_plain_gets() noexcept {
#if defined(__SSE2__)
  constexpr std::size_t before_key = Kind == PlainGet::text ? sizeof("get ") - 1 : sizeof("mg ") - 1;
  constexpr std::size_t behind_key = Kind == PlainGet::text   ? 0
                                     : Kind == PlainGet::meta ? sizeof(" v") - 1
                                                              : sizeof(" v K") - 1;
  const char* line = p_;
  const char* const end = end_;
  Query* q = batch_.queries() + batch_.size();
  Query* const q_end = batch_.queries() + batch_.capacity();
  constexpr std::ptrdiff_t line_bytes_max = key_bytes_max;  // longer lines are left to the general path
  // is_word() looks 16 bytes ahead.
  for (const char* block = line; end - block >= block_bytes + 16 && block - line <= line_bytes_max;
       block += block_bytes) {
    for (std::uint64_t found = find_in_block<detail::Equal<'\n'>>(block); found != 0; found &= found - 1) {
      const char* const line_end = block + std::countr_zero(found) - 1;
      const char* const key = line + before_key;
      const auto key_bytes = static_cast<std::size_t>(line_end - key) - behind_key;
      if (TD_UNLIKELY(key_bytes - 1 >= key_bytes_max || q == q_end)) goto done;
      if constexpr (Kind == PlainGet::text) {
        if (TD_UNLIKELY(load<std::uint32_t>(line) != load<std::uint32_t>("get ") || *line_end != '\r')) goto done;
      } else {
        if (TD_UNLIKELY(!is_meta_get(load<std::uint32_t>(line)))) goto done;
        constexpr const char* line_rest = Kind == PlainGet::meta ? " v\r\n" : " K\r\n";
        if (TD_UNLIKELY(load<std::uint32_t>(line_end - 2) != load<std::uint32_t>(line_rest))) goto done;
        if constexpr (Kind == PlainGet::meta_with_key) {
          if (TD_UNLIKELY(load<std::uint16_t>(key + key_bytes) != load<std::uint16_t>(" v"))) goto done;
        }
      }
      if (TD_UNLIKELY(!is_word(key, key_bytes))) goto done;
      put_plain_get<Kind>(*q++, line, key, key_bytes);
      line = line_end + 2;
    }
  }
done:
  batch_.resize(static_cast<std::uint32_t>(q - batch_.queries()));
  p_ = line;
#endif
}

// "get key key ...\r\n" without control characters and without two spaces in a row. False: nothing was taken.
TD_INLINE bool LineParser::fast_get(const char* key, ReplyKind reply) {
  const char *const begin = begin_, *const end = end_, *const line = p_;
  Query* const first = batch_.queries() + batch_.size();
  Query* const last = batch_.queries() + batch_.capacity();
  WordEnds word_ends(begin, end);
  for (Query* q = first; q != last;) {
    const char* const key_end = q == first ? find_delimiter(key, end, begin) : word_ends.next(key);
    const auto key_bytes = static_cast<std::size_t>(key_end - key);
    if (TD_UNLIKELY(key_bytes - 1 >= key_bytes_max || end - key_end < 2)) return false;
    q->key = key;
    q->key_bytes = static_cast<std::uint8_t>(key_bytes);
    q->opcode = Opcode::get;
    q->options = 0;
    q->wire = line;
    q->reply = static_cast<std::uint8_t>(reply);
    q->continues_line = q != first;
    ++q;
    key = key_end + 1;
    if (TD_LIKELY(*key_end == ' ')) continue;
    if (TD_UNLIKELY(load<std::uint16_t>(key_end) != load<std::uint16_t>("\r\n"))) return false;
    q[-1].options = option::last_of_line;
    const auto wire_bytes = static_cast<std::uint32_t>(key_end - line);
    for (Query* k = first; k != q; ++k) k->wire_bytes = wire_bytes;
    batch_.resize(static_cast<std::uint32_t>(q - batch_.queries()));
    p_ = key_end + 2;
    return true;
  }
  return false;
}

// The end of a line whose last plain word ends at `p`: there, or behind noreply. nullptr: p is nullptr, another word
// follows, or the line is not complete.
TD_INLINE const char* LineParser::plain_line_end(const char* p, std::uint16_t& options) const noexcept {
  if (TD_UNLIKELY(p == nullptr)) return nullptr;
  if (TD_UNLIKELY(*p == ' ')) {
    if (end_ - p < 10 || !starts_with(p, " noreply\r\n")) return nullptr;
    options |= option::no_reply;
    p += 8;
  }
  return end_ - p >= 2 && TD_LIKELY(load<std::uint16_t>(p) == load<std::uint16_t>("\r\n")) ? p : nullptr;
}

// " number ..." at `p`, which is nullptr or in the input, as read_plain() reads it. nullptr: no such number.
template <class T>
TD_INLINE const char* LineParser::plain_number(const char* p, T& to) const noexcept {
  return TD_LIKELY(p != nullptr && *p == ' ') ? number::read_plain(p + 1, end_, to) : nullptr;
}

// "key flags exptime bytes[ cas][ noreply]\r\nvalue\r\n" in plain numbers, whole in the input. False: nothing was
// taken.
bool LineParser::fast_update(const char* key, StoreMode mode, std::uint16_t options) {
  const char* const key_end = find_delimiter(key, end_, begin_);
  const auto key_bytes = static_cast<std::size_t>(key_end - key);
  if (TD_UNLIKELY(key_bytes - 1 >= key_bytes_max || key_end == end_)) return false;
  std::uint32_t client_flags = 0, exptime = 0, bytes = 0;
  std::uint64_t cas = 0;
  const char* p = plain_number(plain_number(plain_number(key_end, client_flags), exptime), bytes);
  if (options == option::compare_cas) p = plain_number(p, cas);
  const char* const line_end = plain_line_end(p, options);
  if (TD_UNLIKELY(line_end == nullptr)) return false;
  const char* const value = line_end + 2;
  if (TD_UNLIKELY(end_ - value < 2 + static_cast<std::ptrdiff_t>(bytes))) return false;
  if (TD_UNLIKELY(load<std::uint16_t>(value + bytes) != load<std::uint16_t>("\r\n"))) return false;
  if (TD_UNLIKELY(Item::total_bytes(client_flags, key_bytes, bytes) > options_.item_bytes_max)) return false;
  line_end_ = line_end;
  Query& q = start(Opcode::store, ReplyKind::store, options);
  set_key(q, {key, key_bytes});
  q.value = value;
  q.value_bytes = bytes;
  q.client_flags = client_flags;
  q.expiry_s = exptime == 0 ? Clock::never : clock_.expiry_s(exptime);
  q.cas = cas;
  q.mode = mode;
  batch_.commit();
  p_ = value + bytes + 2;
  return true;
}

// Other commands of one key, in plain words and numbers, whole in the input. False: nothing was taken.
TD_NOINLINE bool LineParser::fast_text() {
  const char* const name_end = find_delimiter(p_, end_, begin_);
  if (TD_UNLIKELY(end_ - name_end < 2 || *name_end != ' ')) return false;
  const CommandRow& command = find_command({p_, static_cast<std::size_t>(name_end - p_)});
  if (command.form == Form::update) return fast_update(name_end + 1, command.mode, command.options);
  std::uint32_t exptime = 0;
  std::uint64_t delta = 0;
  const bool retrieves = command.form == Form::retrieve_touch;
  const char* const before_key = retrieves ? plain_number(name_end, exptime) : name_end;
  if (TD_UNLIKELY(before_key == nullptr || *before_key != ' ')) return false;
  const char* const key = before_key + 1;
  const char* p = find_delimiter(key, end_, begin_);
  const auto key_bytes = static_cast<std::size_t>(p - key);
  if (TD_UNLIKELY(key_bytes - 1 >= key_bytes_max || p == end_)) return false;
  ReplyKind reply = command.with_cas ? ReplyKind::gets : ReplyKind::get;
  if (command.form == Form::arithmetic) {
    reply = ReplyKind::arithmetic;
    p = plain_number(p, delta);
  } else if (command.form == Form::touch) {
    reply = ReplyKind::touch;
    p = plain_number(p, exptime);
  } else if (command.form == Form::remove) {
    reply = ReplyKind::remove;
  } else if (!retrieves) {
    return false;
  }
  std::uint16_t options = command.options;
  line_end_ = plain_line_end(p, options);
  if (TD_UNLIKELY(line_end_ == nullptr)) return false;
  if (retrieves) {
    if (TD_UNLIKELY((options & option::no_reply) != 0)) return false;  // a second key
    options |= option::last_of_line;
  }
  Query& q = start(command.opcode, reply, options);
  set_key(q, {key, key_bytes});
  q.expiry_s = exptime == 0 ? Clock::never : clock_.expiry_s(exptime);
  q.delta = delta;
  batch_.commit();
  p_ = line_end_ + 2;
  return true;
}

// "m? key ...\r\n" without control characters, of which the key ends at `key_end`. False: nothing was taken.
TD_INLINE bool LineParser::fast_meta(const char* key_end, Step& step) {
  const char* const key = p_ + 3;
  const auto key_bytes = static_cast<std::size_t>(key_end - key);
  if (TD_UNLIKELY(key_bytes - 1 >= key_bytes_max)) return false;
  const char* const line_end = find_control(key_end, end_, begin_);
  if (TD_UNLIKELY(end_ - line_end < 2 || load<std::uint16_t>(line_end) != load<std::uint16_t>("\r\n"))) return false;
  const auto letter = static_cast<unsigned>(static_cast<unsigned char>(p_[1])) - 'a';
  const Form form = letter < meta_forms.size() ? meta_forms[letter] : Form::none;
  if (TD_UNLIKELY(form == Form::none)) return false;
  line_end_ = line_end;
  next_ = line_end + 2;
  step = meta_of(form, {key, key_bytes}, key_end);
  return true;
}

}  // namespace tandem::codec
