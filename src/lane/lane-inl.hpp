// The lane, written once over a Kernel (kernel_scalar.hpp says what that is). Compiled once for each processor:
// TD_LANES_NAMESPACE names the copy, TD_KERNEL the Kernel, and this file has no include guard so that each target
// region includes its own.
#if !defined(TD_LANES_NAMESPACE) || !defined(TD_KERNEL)
#error "TD_LANES_NAMESPACE and TD_KERNEL must name this copy"
#endif

namespace tandem::lane::TD_LANES_NAMESPACE {

using K = TD_KERNEL;
#if TD_ADDRESS_SANITIZER
using ItemKernel = ScalarKernel;  // a vector reads what the item leaves of its slot, which is poisoned
#else
using ItemKernel = K;
#endif

// --- PP

// Ends of words, found 64 bytes at a time.
struct Words {
  const char* block;
  std::uint64_t blanks;
  const char* const begin;
  const char* const end;

  TD_INLINE Words(const char* p, const char* b, const char* e) noexcept
      : block(p), blanks(K::blanks(p)), begin(b), end(e) {}
  // The first space or control character from `p` on, which may lie behind `end`. REQUIRES: p is behind the last one.
  TD_INLINE const char* end_of(const char* p) noexcept {
    const auto offset = static_cast<std::size_t>(p - block);
    if (TD_LIKELY(offset < 64)) {
      const std::uint64_t found = blanks >> offset;
      if (TD_LIKELY(found != 0)) return p + std::countr_zero(found);
    }
    if (TD_UNLIKELY(p >= end)) return end;
    block = p;
    blanks = K::blanks(p);
    if (TD_LIKELY(blanks != 0)) return p + std::countr_zero(blanks);
    return codec::find_delimiter(p, end, begin);
  }
};

// What fills a strip.
struct Filling {
  Strip& strip;
  std::uint32_t segment = 0;  // as info has it
  std::uint32_t count = 0;
  std::uint32_t first = 0, differ = 0;  // an info, and where others are not like it
  std::uint32_t longest = 0;            // its top bit: a key is long

  TD_INLINE bool full() const noexcept { return count == strip_queries; }
  TD_INLINE void put(const char* line, const char* key, std::size_t key_bytes, std::uint8_t kind) noexcept {
    const std::uint32_t n = count++;
    const auto bytes = static_cast<std::uint32_t>(key_bytes);
    const std::uint32_t word = segment | std::uint32_t{kind} << info::kind_shift | bytes;
    strip.key[n] = key;
    strip.line[n] = line;
    strip.info[n] = word;
    differ |= word ^ first;
    longest |= static_cast<std::uint32_t>(short_key_bytes_max) - bytes;
    K::load_key(strip.key16[n], key, key_bytes);
  }
};

// Keys of a line with several, which are known to be plain.
TD_INLINE void parse_keys(State& s, Filling& filling, Words& words) noexcept {
  const char* p = s.at;
  std::uint8_t kind = s.line_kind;
  while (!filling.full()) {
    const char* const key_end = words.end_of(p);
    const bool last = *key_end != ' ';
    filling.put(s.line, p, static_cast<std::size_t>(key_end - p),
                static_cast<std::uint8_t>(kind | (last ? kind::last_of_line : 0)));
    kind = static_cast<std::uint8_t>((kind & ~kind::begins_many) | kind::continues);
    p = key_end + (last ? 2 : 1);
    if (!last) continue;
    s.line = nullptr;
    break;
  }
  s.at = p;
  s.line_kind = kind;
}

// Lines from State::at on, until the strip is full; if it is not, State::at is where the lane's part of the segment
// ends.
TD_INLINE void parse_lines(State& s, Filling& filling, const LaneSegment& segment) noexcept {
  using codec::load;
  const char* const end = segment.end;
  Words words(s.at, segment.begin, end);
  if (TD_UNLIKELY(s.line != nullptr)) parse_keys(s, filling, words);
  const char* p = s.at;
  while (!filling.full()) {
    const auto word = load<std::uint32_t>(p);
    if (TD_LIKELY(word == load<std::uint32_t>("get "))) {
      const char* const key = p + 4;
      const char* const key_end = words.end_of(key);
      const auto key_bytes = static_cast<std::size_t>(key_end - key);
      if (TD_UNLIKELY(key_bytes - 1 >= key_bytes_max || end - key_end < 2)) break;
      if (TD_LIKELY(load<std::uint16_t>(key_end) == load<std::uint16_t>("\r\n"))) {
        filling.put(p, key, key_bytes, kind::get | kind::last_of_line);
        p = key_end + 2;
        continue;
      }
    }
    if ((word & load<std::uint32_t>("\xff\xff\xff\0")) == load<std::uint32_t>("mg \0")) {
      const char* const key = p + 3;
      const char* const key_end = words.end_of(key);
      const auto key_bytes = static_cast<std::size_t>(key_end - key);
      if (TD_UNLIKELY(key_bytes - 1 >= key_bytes_max || end - key_end < 4)) break;
      if (TD_LIKELY(load<std::uint32_t>(key_end) == load<std::uint32_t>(" v\r\n"))) {
        filling.put(p, key, key_bytes, kind::meta_get | kind::last_of_line);
        p = key_end + 4;
        continue;
      }
      if (end - key_end < 6 || load<std::uint32_t>(key_end) != load<std::uint32_t>(" v K") ||
          load<std::uint16_t>(key_end + 4) != load<std::uint16_t>("\r\n"))
        break;
      filling.put(p, key, key_bytes, kind::meta_get_key | kind::last_of_line);
      p = key_end + 6;
      continue;
    }
    const bool is_gets = word == load<std::uint32_t>("gets") && p[4] == ' ';
    if (!is_gets && word != load<std::uint32_t>("get ")) break;
    const char* const key = p + (is_gets ? 5 : 4);
    if (!are_plain_keys(key, end, segment.begin)) break;
    s.line = p;
    s.line_kind = is_gets ? kind::gets : kind::get;
    if (*codec::find_delimiter(key, end, segment.begin) == ' ') s.line_kind |= kind::begins_many;
    s.at = key;
    parse_keys(s, filling, words);
    p = s.at;
  }
  s.at = p;
}

// The same of packets.
TD_INLINE void parse_packets(State& s, Filling& filling, const LaneSegment& segment) noexcept {
  namespace binary = codec::binary;
  const char* p = s.at;
  const char* const end = segment.end;
  while (!filling.full() && end - p >= static_cast<std::ptrdiff_t>(binary::header_bytes)) {
    const binary::Request r = binary::Request::read(p);
    const std::size_t key_bytes = r.key_bytes;
    const binary::Rule& rule = binary::rule_of(r.opcode);
    if (binary::read<std::uint8_t>(p) != binary::request_magic || rule.form != binary::Form::get || rule.options != 0)
      break;
    if (TD_UNLIKELY(r.extras_bytes != 0 || r.body_bytes != key_bytes || key_bytes - 1 >= key_bytes_max)) break;
    const char* const key = p + binary::header_bytes;
    if (TD_UNLIKELY(end - key < static_cast<std::ptrdiff_t>(key_bytes))) break;
    filling.put(p, key, key_bytes, kind::binary_get | kind::last_of_line);
    p = key + key_bytes;
  }
  s.at = p;
}

TD_INLINE void parse(State& s, Strip& strip) noexcept {
  Filling filling{strip};
  while (s.parsing < s.segments.size()) {
    LaneSegment& segment = s.segments[s.parsing];
    if (TD_LIKELY(!segment.stopped)) {
      filling.segment = s.parsing << info::segment_shift;
      if (filling.count == 0) {
        filling.first = filling.segment | static_cast<std::uint32_t>(segment.binary ? kind::binary_get : s.usual_kind)
                                              << info::kind_shift;
      }
      segment.binary ? parse_packets(s, filling, segment) : parse_lines(s, filling, segment);
      if (filling.full()) break;
      segment.rest = s.at;
    }
    ++s.parsing;
    s.line = nullptr;
    if (s.parsing < s.segments.size()) s.at = s.segments[s.parsing].begin;
  }
  strip.count = filling.count;
  strip.has_long_key = filling.longest >> 31 != 0;
  if (TD_UNLIKELY(filling.count == 0)) return;
  // As the last one, but for the keys' lengths: what is to come is taken to be the same kind.
  const std::uint32_t last = strip.info[filling.count - 1];
  s.usual_kind = info::kind(last);
  const std::uint32_t differ = filling.differ >> info::kind_shift;
  strip.is_uniform = differ == 0 && filling.full() && !strip.has_long_key &&
                     (s.usual_kind & (kind::continues | kind::begins_many)) == 0;
  if (TD_UNLIKELY(s.keys != nullptr)) {
    for (std::uint32_t i = 0; i < filling.count; ++i) s.keys->push_back(strip.key_of(i));
  }
}

// --- IN

TD_INLINE void hash(const State& s, Strip& strip) noexcept {
  K::hash(strip, s.seed);
  if (TD_LIKELY(!strip.has_long_key)) return;
  for (std::uint32_t i = 0; i < strip.count; ++i) {
    const std::string_view key = strip.key_of(i);
    if (key.size() > short_key_bytes_max) strip.fingerprint[i] = long_fingerprint_of(key.data(), key.size(), s.seed);
  }
}

TD_INLINE void prefetch_bucket(const State& s, const Strip& strip, std::uint32_t i) noexcept {
  prefetch_read(s.view.buckets + s.view.first(strip.fingerprint[i]));
}

// As candidate() of index/cuckoo/cuckoo-inl.hpp.
TD_INLINE Location search(const Bucket* bucket, std::uint32_t signature) noexcept {
  const K::Cells l{};
  const auto v = l.load(bucket);
  const Cell c = l.take(bucket, v, l.lowest(l.match(v, signature) | 1u << bucket_cells) % bucket_cells);
  return c.signature() == signature ? c.location() : no_location;
}

TD_INLINE void prefetch_item(const State& s, Location l) noexcept {
  const char* const item = s.items + std::uint64_t{l} * granule_bytes;
  prefetch_read(item);
  for (std::uint32_t more = 1; TD_UNLIKELY(more <= s.more_lines); ++more) prefetch_read(item + more * cache_line_bytes);
}

TD_INLINE void search_first(const State& s, Strip& strip, std::uint32_t i) noexcept {
  const Fingerprint f = strip.fingerprint[i];
  const std::uint32_t b = s.view.first(f);
  const Location found = search(s.view.buckets + b, f.signature);
  strip.location[i] = found;
  strip.left |= (found == no_location ? 1u : 0u) << i;
  // Without a branch, which no processor could guess.
  const void* const second = s.view.buckets + s.view.other(b, f.signature);
  prefetch_read(found != no_location ? static_cast<const void*>(s.items + std::uint64_t{found} * granule_bytes)
                                     : second);
  if (TD_UNLIKELY(s.more_lines != 0)) prefetch_item(s, found);
}

TD_INLINE void search_second(const State& s, Strip& strip) noexcept {
  for (std::uint32_t left = strip.left & ((1u << strip.count) - 1); left != 0; left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    const Fingerprint f = strip.fingerprint[i];
    strip.location[i] = search(s.view.buckets + s.view.second(f), f.signature);
    prefetch_item(s, strip.location[i]);
  }
  strip.left = 0;
}

// --- KC

TD_INLINE bool is_fresh(const State& s, std::uint64_t state) noexcept {
  return task::access_age_s(state, s.now_s) < task::access_refresh_s;
}

// Whether the candidate is the usual hit: with nothing to do for it but to reply. REQUIRES: the key is short, or
// compared beyond its first bytes.
TD_INLINE bool is_usual_hit(const State& s, const Strip& strip, std::uint32_t i, Hit& hit) noexcept {
  const Location l = strip.location[i];
  hit.item = reinterpret_cast<const Item*>(s.items + std::uint64_t{l} * granule_bytes);
  return TD_LIKELY(l != no_location && ItemKernel::is_usual(hit.item, strip.key16[i], info::key_bytes(strip.info[i]),
                                                            hit.state, hit.fixed)) &&
         TD_LIKELY(is_fresh(s, hit.state) && !is_flushed({hit.state, hit.fixed}, s.flush_cas));
}

TD_INLINE Found check(State& s, const Strip& strip, std::uint32_t i, Hit& hit) noexcept {
  const std::size_t key_bytes = info::key_bytes(strip.info[i]);
  if (TD_LIKELY(
          is_usual_hit(s, strip, i, hit) &&
          (key_bytes <= short_key_bytes_max || bytes_equal(hit.item->bytes() + sizeof(Item), strip.key[i], key_bytes))))
    return Found::hit;
  return look_closely(s, strip, i, hit);
}

// The items to come are taken to be as long as this one.
TD_INLINE void expect_like(State& s, const Hit& hit) noexcept {
  constexpr std::uint64_t more_lines_max = 3;
  const std::uint64_t end = reinterpret_cast<std::uintptr_t>(hit.item) % cache_line_bytes + sizeof(Item) +
                            word::KeyBytes::get(hit.fixed) + word::ValueBytes::get(hit.fixed);
  s.more_lines = static_cast<std::uint32_t>(std::min((end - 1) / cache_line_bytes, more_lines_max));
}

// A value that is not copied.
TD_INLINE bool is_too_long(Found found, const Hit& hit) noexcept {
  return found == Found::hit && word::ValueBytes::get(hit.fixed) > copied_value_bytes_max;
}

// --- WR

// Room for a strip's replies, and where the next one begins.
class Replies {
 public:
  TD_INLINE explicit Replies(Output& out) : out_(out) { resume(); }
  TD_INLINE void resume() { p = begin_ = out_.reserve(strip_queries * codec::small_hit_bytes_max); }
  // Before anything else appends to the output, or asks for its size; then resume() again.
  TD_INLINE void pause() noexcept { out_.commit(static_cast<std::size_t>(p - begin_)); }

  char* p;

 private:
  Output& out_;
  char* begin_;
};

// A hit's reply. Kind: what the query is.
template <std::uint8_t Kind>
TD_INLINE char* put_hit(const State& s, const Strip& strip, std::uint32_t i, const Hit& hit, bool has_flags, bool ends,
                        char* p) noexcept {
  namespace detail = codec::detail;
  namespace binary = codec::binary;
  const codec::detail::SmallHit small(hit.item, strip.key[i], info::key_bytes(strip.info[i]),
                                      static_cast<std::uint32_t>(word::ValueBytes::get(hit.fixed)), has_flags);
  const auto cas = [&] {
    return s.options.cas ? word::CasHigh::get(hit.state) << word::CasLow::width | word::CasLow::get(hit.fixed) : 0;
  };
  if constexpr (Kind == kind::get) return detail::put_text_hit(p, small, ends, false, 0);
  if constexpr (Kind == kind::gets) return detail::put_text_hit(p, small, ends, true, cas());
  if constexpr (Kind == kind::meta_get) return detail::put_meta_hit(p, small);
  if constexpr (Kind == kind::meta_get_key)
    return detail::put_meta_key_hit(p, hit.item, small.key_bytes, small.value, small.value_bytes, has_flags);
  if constexpr (Kind == kind::binary_get) {
    const auto opcode = binary::read<std::uint8_t>(strip.line[i] + binary::at::opcode);
    return detail::put_binary_hit(p, small, strip.line[i], binary::rule_of(opcode).with_key, cas());
  }
}

TD_INLINE char* put_any_hit(const State& s, const Strip& strip, std::uint32_t i, const Hit& hit, char* p) noexcept {
  const std::uint8_t kind = strip.kind(i);
  const bool has_flags = word::HasFlags::get(hit.fixed) != 0, ends = (kind & kind::last_of_line) != 0;
  switch (kind & kind::command_mask) {
    case kind::get:
      return put_hit<kind::get>(s, strip, i, hit, has_flags, ends, p);
    case kind::gets:
      return put_hit<kind::gets>(s, strip, i, hit, has_flags, ends, p);
    case kind::meta_get:
      return put_hit<kind::meta_get>(s, strip, i, hit, has_flags, ends, p);
    case kind::meta_get_key:
      return put_hit<kind::meta_get_key>(s, strip, i, hit, has_flags, ends, p);
    default:
      return put_hit<kind::binary_get>(s, strip, i, hit, has_flags, ends, p);
  }
}

TD_NOINLINE inline char* put_slowly(char* begin, const Hit& hit, auto put_version) noexcept {
  char* end = begin;
  copy_slowly(hit.item, hit.state, [&](const ItemVersion& seen) noexcept {
    end = put_version(Hit{hit.item, seen.state, seen.fixed}, begin);
  });
  return end;
}
// The reply to a small hit, of one version of its item: a set may rewrite the item in place meanwhile. The state word
// is read again, since the vector that was compared may have had it from before its fixed word.
TD_INLINE char* put_validated(char* begin, const Hit& hit, auto put_version) noexcept {
  fence_acquire();
  const ItemVersion seen{hit.item->state_acquire(), hit.fixed};
  char* const end = put_version(Hit{hit.item, seen.state, seen.fixed}, begin);
  if (TD_LIKELY(is_still(hit.item, seen))) return end;
  return put_slowly(begin, hit, put_version);
}

// What a hit or miss comes to. `replies` is paused where something else writes.
TD_INLINE void reply(State& s, Strip& strip, std::uint32_t i, Found found, const Hit& hit, Replies& replies) {
  LaneSegment& segment = s.segments[s.answering];
  const std::uint8_t kind = strip.kind(i);
  if (TD_UNLIKELY((kind & kind::begins_many) != 0)) {
    replies.pause();
    s.mark = {s.out->size(), s.hits, segment.queries};
    replies.resume();
  }
  if (TD_LIKELY(found == Found::hit)) {
    if (TD_LIKELY(word::ValueBytes::get(hit.fixed) <= codec::small_value_bytes_max)) {
      replies.p = put_validated(
          replies.p, hit, [&](const Hit& version, char* p) noexcept { return put_any_hit(s, strip, i, version, p); });
    } else {
      replies.pause();
      write_long(s, strip, i, hit);
      replies.resume();
    }
    ++s.hits;
  } else {
    replies.pause();
    write_miss(s, strip, i);
    replies.resume();
  }
  ++segment.queries;
  segment.commands[kind & kind::command_mask] += (kind & kind::last_of_line) != 0 ? 1 : 0;
}

// Whether query i is still to be answered. The segment that it belongs to is the one that is answered from now on.
TD_INLINE bool enter(State& s, const Strip& strip, std::uint32_t i, Replies& replies) {
  if (TD_LIKELY(strip.segment(i) == s.answering)) return true;
  replies.pause();
  const bool goes_on = enter_segment(s, strip.segment(i));
  replies.resume();
  return goes_on;
}

// A strip that is uniform, up to the first query that is not the usual small hit: which that is.
template <std::uint8_t Kind>
TD_INLINE std::uint32_t answer_usual(State& s, const Strip& strip, Replies& replies) noexcept {
  char* p = replies.p;
  std::uint32_t i = 0;
  Hit hit{};
  for (; i < strip_queries; ++i) {
    Hit next;
    if (TD_UNLIKELY(!is_usual_hit(s, strip, i, next) ||
                    word::ValueBytes::get(next.fixed) > codec::small_value_bytes_max))
      break;
    hit = next;
    p = put_validated(p, hit, [&](const Hit& version, char* to) noexcept {
      return put_hit<Kind>(s, strip, i, version, false, true, to);
    });
  }
  replies.p = p;
  if (TD_UNLIKELY(i == 0)) return 0;
  expect_like(s, hit);
  LaneSegment& segment = s.segments[s.answering];
  segment.queries += i;
  segment.commands[Kind] += i;
  s.hits += i;
  return i;
}

TD_INLINE std::uint32_t answer_uniform(State& s, const Strip& strip, Replies& replies) {
  if (TD_UNLIKELY(!enter(s, strip, 0, replies))) return strip_queries;
  switch (strip.kind(0) & kind::command_mask) {
    case kind::get:
      return answer_usual<kind::get>(s, strip, replies);
    case kind::meta_get:
      return answer_usual<kind::meta_get>(s, strip, replies);
    case kind::meta_get_key:
      return answer_usual<kind::meta_get_key>(s, strip, replies);
    case kind::binary_get:
      return answer_usual<kind::binary_get>(s, strip, replies);
    default:
      return 0;
  }
}

// Timed: KC of all, then WR of all.
template <bool Timed>
TD_INLINE void answer(State& s, Strip& strip) {
  Replies replies(*s.out);
  std::uint32_t i = 0;
  Found found[strip_queries];
  Hit hits[strip_queries];
  if constexpr (Timed) {
    for (std::uint32_t j = 0; j < strip.count; ++j) found[j] = check(s, strip, j, hits[j]);
    s.laps->lap(Task::key_compare);
  } else if (TD_LIKELY(strip.is_uniform)) {
    i = answer_uniform(s, strip, replies);
  }
  for (; i < strip.count; ++i) {
    if (TD_UNLIKELY(!enter(s, strip, i, replies))) continue;
    if constexpr (!Timed) found[i] = check(s, strip, i, hits[i]);
    if (TD_UNLIKELY(found[i] == Found::other || is_too_long(found[i], hits[i]))) {
      replies.pause();
      stop(s, strip, i);
      replies.resume();
      continue;
    }
    if (found[i] == Found::hit) expect_like(s, hits[i]);
    reply(s, strip, i, found[i], hits[i], replies);
  }
  replies.pause();
  if constexpr (Timed) s.laps->lap(Task::write_response);
}

// --- the schedule

// Strips between parsing and the answers.
inline constexpr std::uint32_t lead = 4;

// The output is full: ends the run with the first query of strips from `k` on that is not answered. False: all that
// were parsed are.
TD_NOINLINE inline bool leave_before(State& s, std::uint32_t k) noexcept {
  for (const std::uint32_t end = k + lead; k != end; ++k) {
    const Strip& strip = s.ring[k % s.ring.size()];
    for (std::uint32_t i = 0; i < strip.count; ++i) {
      if (s.segments[strip.segment(i)].stopped) continue;
      leave(s, strip, i);
      return true;
    }
    if (strip.count != strip_queries) break;
  }
  return false;
}

template <bool Timed>
inline void run(State& s) {
  Laps* const laps = Timed ? s.laps : nullptr;
  const auto lap = [laps](Task task) {
    if (laps != nullptr) laps->lap(task);
  };
  for (Strip& strip : s.ring) strip.count = 0;
  static_assert(State::ring_strips > lead);
  // Turn k answers strip k - lead, and parses strip k. A strip that is not full is the last.
  std::uint32_t last = ~std::uint32_t{0};
  for (std::uint32_t k = 0; k <= last + lead || last == ~std::uint32_t{0}; ++k) {
    const auto strip = [&s](std::uint32_t number) -> Strip& { return s.ring[number % s.ring.size()]; };
    Strip& parsed = strip(k);
    parsed.count = 0;
    if (TD_LIKELY(last == ~std::uint32_t{0})) {
      parse(s, parsed);
      if (parsed.count != strip_queries) last = k;
      lap(Task::parse);
    }
    Strip& hashed = strip(k - 1);
    if (TD_LIKELY(hashed.count != 0)) hash(s, hashed);
    Strip& searched = strip(k - 2);
    searched.left = 0;
    Strip& answered = strip(k - lead);
    if (hashed.count != 0) {
      for (std::uint32_t i = 0; i < strip_queries; ++i) prefetch_bucket(s, hashed, i);
    }
    if (searched.count != 0) {
      for (std::uint32_t i = 0; i < strip_queries; ++i) search_first(s, searched, i);
    }
    search_second(s, strip(k - 3));
    lap(Task::search);
    if (TD_LIKELY(answered.count != 0)) {
      answer<Timed>(s, answered);
      if (TD_UNLIKELY(s.out->size() >= s.output_bytes_max) && leave_before(s, k - lead + 1)) return;
    }
  }
}

}  // namespace tandem::lane::TD_LANES_NAMESPACE

#undef TD_LANES_NAMESPACE
#undef TD_KERNEL
