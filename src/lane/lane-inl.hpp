// The lane over a Kernel (kernel_scalar.hpp documents one). Compiled once per instruction set: TD_LANES_NAMESPACE names
// the copy and TD_KERNEL its Kernel. This file has no include guard, because each target region includes it.
#if !defined(TD_LANES_NAMESPACE) || !defined(TD_KERNEL)
#error "TD_LANES_NAMESPACE and TD_KERNEL must name this copy"
#endif

namespace tandem::lane::TD_LANES_NAMESPACE {

using K = TD_KERNEL;
#if TD_ADDRESS_SANITIZER
using ItemKernel = ScalarKernel;  // vector loads read past the item, where its slot is poisoned
#else
using ItemKernel = K;
#endif

#include "lane/count-inl.hpp"
#include "lane/defer-inl.hpp"
#include "lane/parse-inl.hpp"
#include "lane/search-inl.hpp"
#include "lane/take_located-inl.hpp"

// --- KC

// Whether the candidate is the usual hit, which needs only a reply and perhaps a mark. REQUIRES: the key is short, or
// the caller compares the bytes behind the first short_key_bytes_max.
TD_INLINE bool is_usual_hit(const State& s, const Strip& strip, std::uint32_t i, Hit& hit) noexcept {
  hit.item = strip.item[i];
  return TD_LIKELY(
             ItemKernel::is_usual(hit.item, strip.key16[i], info::key_bytes(strip.info[i]), hit.state, hit.fixed)) &&
         TD_LIKELY(!s.was_flushed() || !is_flushed({hit.state, hit.fixed}, s.flush_cas));
}

TD_INLINE void mark(const State& s, const Hit& hit) noexcept {
  if (TD_LIKELY(is_marked(hit.state, s.marked))) return;
  task::mark_access(const_cast<Item*>(hit.item), hit.state, s.now_s);
}

TD_INLINE Found check(State& s, const Strip& strip, std::uint32_t i, Hit& hit) noexcept {
  const std::size_t key_bytes = info::key_bytes(strip.info[i]);
  if (TD_LIKELY(is_usual_hit(s, strip, i, hit) &&
                (key_bytes <= short_key_bytes_max ||
                 bytes_equal(hit.item->bytes() + sizeof(Item), strip.key[i], key_bytes)))) {
    mark(s, hit);
    return Found::hit;
  }
  Hit other = hit;  // a variable of its own keeps `hit` in registers
  const Found found = look_closely(s, strip, i, other);
  hit = {opaque(other.item), opaque(other.state), opaque(other.fixed)};
  return found;
}

// Predicts that the next items are as long as this one.
TD_INLINE void expect_like(State& s, const Hit& hit) noexcept {
  constexpr std::uint64_t more_lines_max = 3;
  const std::uint64_t end = reinterpret_cast<std::uintptr_t>(hit.item) % cache_line_bytes + sizeof(Item) +
                            word::KeyBytes::get(hit.fixed) + word::ValueBytes::get(hit.fixed);
  s.more_lines = static_cast<std::uint32_t>(std::min((end - 1) / cache_line_bytes, more_lines_max));
}

// The reply would pin this value instead of copying it.
TD_INLINE bool is_too_long(Found found, const Hit& hit) noexcept {
  return found == Found::hit && word::ValueBytes::get(hit.fixed) > copied_value_bytes_max;
}

// --- WR

// Reserved output for a strip's replies. p: where the next reply begins.
class Replies {
 public:
  TD_INLINE explicit Replies(Output& out) : out_(out) { resume(); }
  TD_INLINE void resume() { p = begin_ = out_.reserve(strip_queries * codec::small_hit_bytes_max); }
  // REQUIRES: called before any other use of the output, which resume() follows.
  TD_INLINE void pause() noexcept { out_.commit(static_cast<std::size_t>(p - begin_)); }

  char* p;

 private:
  Output& out_;
  char* begin_;
};

// Writes a hit's reply to a query of this kind. ShortKey: the key is known to be short.
template <std::uint8_t Kind, bool ShortKey = false>
TD_INLINE char* put_hit(const State& s, const Strip& strip, std::uint32_t i, const Hit& hit, bool has_flags, bool ends,
                        char* p) noexcept {
  namespace detail = codec::detail;
  namespace binary = codec::binary;
  std::uint32_t key_bytes = info::key_bytes(strip.info[i]);
  if (ShortKey && key_bytes > short_key_bytes_max) __builtin_unreachable();
  const codec::detail::SmallHit small(hit.item, strip.key[i], key_bytes,
                                      static_cast<std::uint32_t>(word::ValueBytes::get(hit.fixed)), has_flags);
  const auto cas = [&] {
    return s.options.cas ? word::CasHigh::get(hit.state) << word::CasLow::width | word::CasLow::get(hit.fixed) : 0;
  };
  if constexpr (Kind == kind::get) return detail::put_text_hit(p, small, ends, false, 0);
  if constexpr (Kind == kind::gets) return detail::put_text_hit(p, small, ends, true, cas());
  if constexpr (Kind == kind::meta_read) return detail::put_meta_hit(p, small);
  if constexpr (Kind == kind::meta_read_key)
    return detail::put_meta_key_hit(p, hit.item, small.key_bytes, small.value, small.value_bytes, has_flags);
  if constexpr (Kind == kind::binary_read) {
    const char* const request = strip.key[i] - binary::header_bytes;
    const auto opcode = binary::read<std::uint8_t>(request + binary::at::opcode);
    return detail::put_binary_hit(p, small, request, binary::rule_of(opcode).with_key, cas());
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
    case kind::meta_read:
      return put_hit<kind::meta_read>(s, strip, i, hit, has_flags, ends, p);
    case kind::meta_read_key:
      return put_hit<kind::meta_read_key>(s, strip, i, hit, has_flags, ends, p);
    default:
      return put_hit<kind::binary_read>(s, strip, i, hit, has_flags, ends, p);
  }
}

// Whether a hit's copy is of one version of its item, which a set may have rewritten in place during the copy.
TD_INLINE bool is_whole(const Hit& hit) noexcept {
  fence_acquire();
  if (TD_LIKELY(hit.item->state_acquire() == hit.state && hit.item->fixed() == hit.fixed)) return true;
  return is_still(hit.item, {hit.state, hit.fixed});  // its marks may have changed
}
// Writes the reply to a small hit again, because its item was rewritten during the first copy.
TD_NOINLINE inline char* put_again(const State& s, const Strip& strip, std::uint32_t i, const Item* item,
                                   std::uint64_t state, char* begin) noexcept {
  char* end = begin;
  copy_slowly(item, state, [&](const ItemVersion& seen) noexcept {
    end = put_any_hit(s, strip, i, {item, seen.state, seen.fixed}, begin);
  });
  return end;
}

// Writes the reply to a completed set at `p`.
TD_INLINE char* put_stored(const State& s, const Strip& strip, std::uint32_t i, std::uint8_t kind,
                           const ItemVersion& stored, char* p) noexcept {
  namespace binary = codec::binary;
  switch (kind & kind::command_mask) {
    case kind::set:
      std::memcpy(p, "STORED\r\n", 8);
      return p + ((kind & kind::no_reply) == 0 ? 8 : 0);
    case kind::meta_store:
      std::memcpy(p, "HD\r\n", 4);
      return p + 4;
    default: {
      const char* const request = strip.line_of(i);
      const char opcode = request[binary::at::opcode];
      if (binary::rule_of(static_cast<std::uint8_t>(opcode)).quiet) return p;
      std::memset(p, 0, binary::header_bytes);
      p[binary::at::magic] = static_cast<char>(binary::response_magic);
      p[binary::at::opcode] = opcode;
      std::memcpy(p + binary::at::opaque, request + binary::at::opaque, sizeof(std::uint32_t));
      binary::write(p + binary::at::cas, s.options.cas ? stored.cas() : 0);
      return p + binary::header_bytes;
    }
  }
}

#include "lane/store-inl.hpp"

// --- answers

// Answers a hit or a miss. `replies` is paused while other code writes to the output.
TD_INLINE void reply(State& s, Strip& strip, std::uint32_t i, Found found, const Hit& hit, Replies& replies) {
  LaneSegment& segment = s.segments[s.answering];
  const std::uint8_t kind = strip.kind(i);
  if (TD_LIKELY(found == Found::hit)) {
    if (TD_LIKELY(word::ValueBytes::get(hit.fixed) <= codec::small_value_bytes_max)) {
      char* const end = put_any_hit(s, strip, i, hit, replies.p);
      replies.p = TD_LIKELY(is_whole(hit)) ? end : put_again(s, strip, i, hit.item, hit.state, replies.p);
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

// Begins to answer another segment. False: it has stopped. Compiled with each set of instructions: the vector
// registers' upper halves are in use, and an instruction of the base set that writes a lower half waits for what loads
// the upper.
TD_NOINLINE inline bool enter_segment(State& s, std::uint32_t number) noexcept {
  LaneSegment& segment = s.segments[number];
  if (segment.stopped) return false;
  leave_segment(s);
  if (TD_UNLIKELY(segment.follows && number != 0 && !s.segments[number - 1].is_answered())) {
    segment.rest = segment.begin;
    segment.stopped = true;
    if (!segment.within_command) segment.parser->rewind_to_command();
    return false;
  }
  s.answering = number;
  if (TD_LIKELY(segment.frame == nullptr)) {
    segment.output_begin = segment.output_end = s.out->size();
  } else if (TD_LIKELY(!segment.within_command)) {
    begin_message(s, segment);
  }
  return true;
}

// Makes query i's segment the one being answered. False: that segment has stopped, so the query is not answered.
TD_INLINE bool enter(State& s, const Strip& strip, std::uint32_t i, Replies& replies) {
  if (TD_LIKELY(strip.segment(i) == s.answering)) return true;
  replies.pause();
  const bool goes_on = enter_segment(s, strip.segment(i));
  replies.resume();
  return goes_on;
}

// Counts the gets of a uniform strip, all of them hits: bit i of `gets` is query i. Predicts that the next items are
// like the last one.
template <std::uint8_t Kind>
TD_INLINE void count_hits(State& s, LaneSegment& segment, const Strip& strip, std::uint32_t gets) noexcept {
  const Item* const last = strip.item[31 - std::countl_zero(gets)];
  expect_like(s, {last, 0, last->fixed()});
  const auto count = static_cast<std::uint32_t>(std::popcount(gets));
  segment.commands[Kind] += count;
  s.hits += count;
}

TD_INLINE bool is_usual_small_hit(const State& s, const Strip& strip, std::uint32_t i, Hit& hit) noexcept {
  return TD_LIKELY(is_usual_hit(s, strip, i, hit) && word::ValueBytes::get(hit.fixed) <= codec::small_value_bytes_max);
}

template <std::uint8_t Kind>
TD_INLINE char* put_usual(const State& s, const Strip& strip, std::uint32_t i, const Hit& hit, char* p) noexcept {
  char* const end = put_hit<Kind, true>(s, strip, i, hit, false, true, p);
  return TD_LIKELY(is_whole(hit)) ? end : put_again(s, strip, i, hit.item, hit.state, p);
}

// A uniform strip without sets in a timed run: KC of all queries, then WR of all. Returns how many were answered: all
// of them, or 0 if one is not the usual small hit.
template <std::uint8_t Kind>
TD_INLINE std::uint32_t answer_usual_timed(State& s, const Strip& strip, Replies& replies) noexcept {
  Hit hits[strip_queries];
  for (std::uint32_t i = 0; i < strip_queries; ++i) {
    if (!is_usual_small_hit(s, strip, i, hits[i])) return 0;
  }
  for (const Hit& hit : hits) mark(s, hit);
  s.laps->lap(Task::key_compare);
  for (std::uint32_t i = 0; i < strip_queries; ++i) replies.p = put_usual<Kind>(s, strip, i, hits[i], replies.p);
  LaneSegment& segment = s.segments[s.answering];
  segment.queries += strip_queries;
  count_hits<Kind>(s, segment, strip, (1u << strip_queries) - 1);
  return strip_queries;
}

// Answers a uniform strip up to the first query that is neither a usual small hit nor a set that the lane can do.
// Returns how many were answered. Kind: of the gets. Sets: the strip may have sets.
template <std::uint8_t Kind, bool Sets, bool Defers = false>
TD_INLINE std::uint32_t answer_usual(State& s, const Strip& strip, Replies& replies) noexcept {
  LaneSegment& segment = s.segments[s.answering];
  char* p = replies.p;
  std::uint64_t i = 0;
  for (; i < strip_queries; ++i) {
    const auto n = static_cast<std::uint32_t>(i);
    if constexpr (Sets) {
      if (strip.is_set(n)) {
        char* const end = store<Defers>(s, segment, strip, n, p);
        if (TD_UNLIKELY(end == nullptr)) break;
        p = end;
        continue;
      }
    }
    Hit hit;
    if (TD_UNLIKELY(!is_usual_small_hit(s, strip, n, hit))) break;
    mark(s, hit);
    p = put_usual<Kind>(s, strip, n, hit, p);
  }
  replies.p = p;
  const auto done = static_cast<std::uint32_t>(i);
  const std::uint32_t all = (1u << done) - 1, gets = (Sets ? ~strip.sets : ~0u) & all;
  segment.queries += done;
  if constexpr (Sets) count_sets(s, strip, strip.sets & all);
  if (TD_LIKELY(gets != 0)) count_hits<Kind>(s, segment, strip, gets);
  return done;
}

// Returns how many queries of the uniform strip were answered.
template <Mode M, std::uint8_t Kind>
TD_INLINE std::uint32_t answer_kind(State& s, const Strip& strip, Replies& replies) noexcept {
  if constexpr (M.timed) return answer_usual_timed<Kind>(s, strip, replies);
  return strip.sets == 0 ? answer_usual<Kind, false>(s, strip, replies)
                         : answer_usual<Kind, true, M.defers>(s, strip, replies);
}
// REQUIRES: a timed strip has no sets.
template <Mode M>
TD_INLINE std::uint32_t answer_uniform(State& s, const Strip& strip, Replies& replies) {
  if (TD_UNLIKELY(!enter(s, strip, 0, replies))) return strip_queries;
  switch (strip.gets & kind::command_mask) {
    case kind::get:
      return answer_kind<M, kind::get>(s, strip, replies);
    case kind::meta_read:
      return answer_kind<M, kind::meta_read>(s, strip, replies);
    case kind::meta_read_key:
      return answer_kind<M, kind::meta_read_key>(s, strip, replies);
    case kind::binary_read:
      return answer_kind<M, kind::binary_read>(s, strip, replies);
    default:
      return 0;
  }
}

// Answers what has no columns of its own: a row, or what a device has written. False: the lane takes neither it nor the
// rest of its segment.
TD_NOINLINE inline bool answer_not_plain(State& s, Strip& strip, std::uint32_t i, Replies& replies, Laps* laps) {
  replies.pause();
  bool done = true;
  if (strip.is_row(i)) {
    done = answer_row(s, strip, i, laps);
  } else {
    answer_run(s, strip, i);
  }
  replies.resume();
  return done;
}

// Answers a get.
TD_INLINE bool answer_one(State& s, Strip& strip, std::uint32_t i, Found found, const Hit& hit, Replies& replies,
                          Laps* laps) {
  if (TD_LIKELY(found != Found::other && !is_too_long(found, hit))) {
    if (found == Found::hit) expect_like(s, hit);
    reply(s, strip, i, found, hit, replies);
    return true;
  }
  replies.pause();
  const bool done = answer_as_row(s, strip, i, laps);
  replies.resume();
  return done;
}

TD_NOINLINE inline void stop_before(State& s, const Strip& strip, std::uint32_t i, Replies& replies) {
  replies.pause();
  stop(s, strip, i);
  replies.resume();
}

// A strip of plain gets and runs in a timed run: KC of all queries, then WR of all.
TD_INLINE void answer_timed(State& s, Strip& strip, Replies& replies) {
  Found found[strip_queries];
  Hit hits[strip_queries];
  for (std::uint32_t i = 0; i < strip.count; ++i) {
    if (!strip.is_run(i)) found[i] = check(s, strip, i, hits[i]);
  }
  s.laps->lap(Task::key_compare);
  for (std::uint32_t i = 0; i < strip.count && i < s.ends_at; ++i) {
    if (TD_UNLIKELY(!enter(s, strip, i, replies))) continue;
    const bool done = strip.is_run(i) ? answer_not_plain(s, strip, i, replies, s.laps)
                                      : answer_one(s, strip, i, found[i], hits[i], replies, s.laps);
    if (TD_UNLIKELY(!done)) stop_before(s, strip, i, replies);
  }
}

template <Mode M>
TD_NOINLINE inline void answer_in_order(State& s, Strip& strip, std::uint32_t i, Replies& replies) {
  Laps* const laps = M.timed ? s.laps : nullptr;
  const auto lap = [laps](Task task) {
    if (laps != nullptr) laps->lap(task);
  };
  for (; i < strip.count && i < s.ends_at; ++i) {
    if (TD_UNLIKELY(!enter(s, strip, i, replies))) continue;
    bool done = false;
    if (strip.is_set(i)) {
      LaneSegment& segment = s.segments[s.answering];
      char* const end = store<M.defers>(s, segment, strip, i, replies.p);
      done = end != nullptr;
      if (TD_LIKELY(done)) {
        replies.p = end;
        ++segment.queries;
        count_sets(s, strip, 1u << i);
      }
      lap(Task::insert);
    } else if (TD_UNLIKELY((strip.kind(i) & kind::not_plain) != 0)) {
      done = answer_not_plain(s, strip, i, replies, laps);
    } else {
      Hit hit;
      const Found found = check(s, strip, i, hit);
      lap(Task::key_compare);
      done = answer_one(s, strip, i, found, hit, replies, laps);
      lap(Task::write_response);
    }
    if (TD_UNLIKELY(!done)) stop_before(s, strip, i, replies);
  }
}

template <Mode M>
TD_INLINE void answer(State& s, Strip& strip) {
  Replies replies(*s.out);
  const bool uniform = TD_LIKELY(strip.is_uniform) && (!M.timed || strip.sets == 0);
  const std::uint32_t done = uniform ? answer_uniform<M>(s, strip, replies) : 0;
  if (TD_UNLIKELY(done != strip.count)) {
    if (M.timed && (strip.sets | strip.rows) == 0) {
      answer_timed(s, strip, replies);
    } else {
      answer_in_order<M>(s, strip, done, replies);
    }
  }
  replies.pause();
  if constexpr (M.timed) s.laps->lap(Task::write_response);
}

// --- runs

#include "lane/turns-inl.hpp"

template <Mode M>
TD_NOINLINE inline void run_as(State& s) {
  run_strips<M, false>(
      s,
      [&s](Strip& strip) TD_INLINE_LAMBDA {
        TD_LIKELY(s.source == Source::text) ? parse(s, strip) : take_and_parse(s, strip);
        if constexpr (M.timed) s.laps->lap(Task::parse);
      },
      [&s](Strip& strip, std::uint32_t k) TD_INLINE_LAMBDA {
        answer<M>(s, strip);
        if (TD_UNLIKELY(strip.located != 0) && s.source != Source::runs) count_located(s, strip);
        const bool is_full = s.out->size() + s.out->external_bytes() >= s.output_bytes_max ||
                             s.context.retired_bytes >= task::retired_bytes_per_epoch_max;
        return TD_LIKELY(!is_full) || !leave_before(s, k, std::exchange(s.ends_at, strip_queries));
      });
}
template <bool Timed>
inline void run(State& s) {
  if (TD_UNLIKELY(s.defers)) return run_as<Mode{.timed = Timed, .defers = true}>(s);
  run_as<Mode{.timed = Timed}>(s);
}

#include "lane/calls-inl.hpp"

}  // namespace tandem::lane::TD_LANES_NAMESPACE

#undef TD_LANES_NAMESPACE
#undef TD_KERNEL
