#include "bench/engine/dispatch.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace tandem::bench {
namespace {

constexpr std::uint64_t sampled_every = 16;
// Requests of one member from one balance to the next; before the first one fewer, so that it comes before a turn.
constexpr std::uint64_t balanced_every = 4 << 20, first_balanced = 64 << 10;

void add_separators(const InnerNode& node, std::vector<std::string_view>& all) {
  for (std::uint32_t i = 0; i <= node.count; ++i) {
    if (node.level != 0) add_separators(*static_cast<const InnerNode*>(node.children()[i]), all);
    if (i < node.count) all.push_back(node.separator(i));
  }
}

// Reads a number at `p`, and moves `p` behind it.
std::size_t read_number(const char*& p) noexcept {
  std::size_t number = 0;
  for (; static_cast<unsigned char>(*p - '0') <= 9; ++p) number = number * 10 + static_cast<std::size_t>(*p - '0');
  return number;
}

// A request's key, and all its bytes.
struct Line {
  std::string_view key;
  std::size_t bytes;
};

[[noreturn]] void refuse_request() {
  throw std::invalid_argument("only complete gets of one key and sets are dispatched");
}

Line read_line(const char* begin, const char* end) {
  const char* const key = begin + 4;
  const char* p = key;
  while (p < end && *p > ' ') ++p;
  const std::string_view found(key, static_cast<std::size_t>(std::max(p, key) - key));
  if (std::memcmp(begin, "get ", 4) == 0) {
    p += 2;
  } else if (std::memcmp(begin, "set ", 4) == 0) {
    read_number(++p);  // flags
    read_number(++p);  // expiry
    const std::size_t value_bytes = read_number(++p);
    if (TD_UNLIKELY(*p != '\r')) refuse_request();  // without a reply
    p += 2 + value_bytes + 2;
  } else {
    refuse_request();
  }
  if (TD_UNLIKELY(p > end || p[-1] != '\n' || p[-2] != '\r')) refuse_request();
  return {found, static_cast<std::size_t>(p - begin)};
}

// Of the reply that begins here.
std::size_t reply_bytes(const char* reply) noexcept {
  constexpr std::size_t short_bytes = sizeof "END\r\n" - 1;
  if (TD_UNLIKELY(*reply != 'V')) {
    const char* p = reply + short_bytes - 1;
    while (*p != '\n') ++p;
    return static_cast<std::size_t>(p - reply) + 1;
  }
  const char* p = reply + sizeof "VALUE " - 1;
  while (*p != ' ') ++p;
  read_number(++p);  // flags
  const std::size_t value_bytes = read_number(++p);
  return static_cast<std::size_t>(p - reply) + 2 + value_bytes + 2 + short_bytes;
}

// Copies 64 bytes at a time; what is behind them is written over.
TD_INLINE void copy_roughly(char* to, const char* from, std::size_t bytes) noexcept {
  std::size_t at = 0;
  do {
    std::memcpy(to + at, from + at, cache_line_bytes);
    at += cache_line_bytes;
  } while (TD_UNLIKELY(at < bytes));
}

}  // namespace

LeafRanges::LeafRanges(const HashTree& tree) {
  std::vector<std::string_view> all;
  add_separators(*tree.root(), all);
  heads_.fill(std::numeric_limits<std::int32_t>::max());
  if (!all.empty()) {
    if (all.size() > 1) common_bytes_ = common_bytes(all.front(), all.back());
    for (std::uint32_t i = 0; i + 1 < count; ++i)
      heads_[i] = InnerNode::head_of(all[(i + 1) * all.size() / count], common_bytes_);
  }
  for (std::uint32_t i = 0; i < block; ++i) last_heads_[i] = heads_[i * block + block - 1];
}

DispatchGroup::DispatchGroup(const HashTree& tree, unsigned members, std::size_t batch_bytes)
    : ranges_(tree), members_(members), ways_(std::size_t{members} * members) {
  if (members > members_max) throw std::invalid_argument("more threads than a dispatch can have");
  for (Way& way : ways_) {
    // Pages are taken as they are written: most parcels are much smaller.
    for (Parcel& parcel : way.parcels)
      parcel.requests = std::make_unique_for_overwrite<char[]>(batch_bytes + 2 * cache_line_bytes);
  }
  for (std::uint32_t i = 0; i < LeafRanges::count; ++i)
    owner_[i].store(static_cast<std::uint8_t>(i * members / LeafRanges::count), std::memory_order_relaxed);
}

void DispatchGroup::balance() noexcept {
  std::array<std::pair<std::uint64_t, std::uint32_t>, LeafRanges::count> asked_for;
  for (std::uint32_t i = 0; i < LeafRanges::count; ++i) {
    asked_for[i] = {0, i};
    for (const Member& member : members_) asked_for[i].first += member.asked_for[i].load(std::memory_order_relaxed);
  }
  // The most popular range to the thread that has the least so far, and so on.
  std::sort(asked_for.rbegin(), asked_for.rend());
  std::array<std::uint64_t, members_max> has{};
  for (const auto& [count, range] : asked_for) {
    const auto least = std::min_element(has.begin(), has.begin() + static_cast<std::ptrdiff_t>(members_.size()));
    *least += count + 1;
    owner_[range].store(static_cast<std::uint8_t>(least - has.begin()), std::memory_order_relaxed);
  }
  version_.fetch_add(1, std::memory_order_release);
}

// A mixture of old and new owners is as good.
void DispatchMember::refresh() noexcept {
  version_ = group_.version_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < owner_.size(); ++i) owner_[i] = group_.owner_[i].load(std::memory_order_relaxed);
}

void DispatchMember::post(std::span<const std::string_view> inputs, std::uint64_t received_ticks) {
  TD_ASSERT(in_flight_ <= in_flight_max);
  if (const bool is_first = group_.version_.load(std::memory_order_relaxed) == 0;
      number_ == 0 && unbalanced_ >= (is_first ? first_balanced : balanced_every)) {
    group_.balance();
    unbalanced_ = 0;
  }
  if (TD_UNLIKELY(in_flight_ == 0)) refresh();  // owners that change later are the next batch's
  const std::uint32_t number = (oldest_ + in_flight_) % DispatchGroup::flights_max;
  Flight& flight = flights_[number];
  flight.owners.clear();
  flight.received_ticks = received_ticks;
  const auto members = static_cast<unsigned>(group_.members_.size());
  std::array<Parcel*, DispatchGroup::members_max> parcels;
  std::array<char*, DispatchGroup::members_max> at;
  for (unsigned to = 0; to < members; ++to) {
    parcels[to] = &group_.way(number_, to).parcels[number];
    at[to] = parcels[to]->requests.get();
  }
  auto& asked_for = group_.members_[number_].asked_for;
  for (const std::string_view input : inputs) {
    const char* const end = input.data() + input.size();
    for (const char* p = input.data(); p != end;) {
      const Line line = read_line(p, end);
      const std::uint32_t range = group_.ranges_.range_of(line.key);
      if (TD_UNLIKELY(flight.owners.size() % sampled_every == 0))
        asked_for[range].store(asked_for[range].load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      const std::uint8_t owner = owner_[range];
      copy_roughly(at[owner], p, line.bytes);
      at[owner] += line.bytes;
      flight.owners.push_back(owner);
      p += line.bytes;
    }
  }
  unbalanced_ += flight.owners.size();
  ++in_flight_;
  for (unsigned i = 0; i < members; ++i) {
    const unsigned to = (number_ + i) % members;  // not all members to the same one first
    Parcel& parcel = *parcels[to];
    parcel.request_bytes = static_cast<std::size_t>(at[to] - parcel.requests.get());
    parcel.replies.clear();
    parcel.state.store(Parcel::State::posted, std::memory_order_release);
    group_.members_[to].posted.fetch_or(std::uint64_t{1} << number_, std::memory_order_release);
  }
}

void DispatchMember::hold_and_take(DispatchGroup::Way& way) {
  if (way.is_held.exchange(true, std::memory_order_acquire)) return;
  const std::size_t before = taken_.size();
  for (std::uint32_t i = 0; i < DispatchGroup::flights_max; ++i) {
    Parcel& parcel = way.parcels[way.next];
    if (parcel.state.load(std::memory_order_acquire) != Parcel::State::posted) break;
    parcel.follows = taken_.size() != before;
    taken_.push_back(&parcel);
    way.next = (way.next + 1) % DispatchGroup::flights_max;
  }
  if (taken_.size() != before) {
    held_.push_back(&way);
  } else {
    way.is_held.store(false, std::memory_order_release);
  }
}

// A way that is held is its poster's, which takes all that it has posted.
std::span<Parcel* const> DispatchMember::take_parcels() {
  TD_ASSERT(taken_.empty());
  auto& posted = group_.members_[number_].posted;
  if (posted.load(std::memory_order_relaxed) == 0) return {};
  for (std::uint64_t from = posted.exchange(0, std::memory_order_acquire); from != 0; from &= from - 1)
    hold_and_take(group_.way(static_cast<unsigned>(std::countr_zero(from)), number_));
  return taken_;
}

std::span<Parcel* const> DispatchMember::take_back() {
  TD_ASSERT(taken_.empty());
  for (unsigned to = 0; to < group_.members_.size(); ++to) {
    const std::size_t before = taken_.size();
    hold_and_take(group_.way(number_, to));
    if (to == number_) continue;
    for (const Parcel* const parcel : std::span(taken_).subspan(before)) {
      if (parcel->request_bytes != 0) ++taken_back_;
    }
  }
  return taken_;
}

void DispatchMember::finish_parcels() noexcept {
  for (Parcel* const parcel : taken_) parcel->state.store(Parcel::State::done, std::memory_order_release);
  for (DispatchGroup::Way* const way : held_) way->is_held.store(false, std::memory_order_release);
  taken_.clear();
  held_.clear();
}

bool DispatchMember::oldest_is_done() noexcept {
  for (unsigned to = 0; to < group_.members_.size(); ++to) {
    if (group_.way(number_, to).parcels[oldest_].state.load(std::memory_order_acquire) != Parcel::State::done)
      return false;
  }
  return true;
}

DispatchMember::Answered DispatchMember::take_replies(Output& out) {
  const Flight& flight = flights_[oldest_];
  std::array<const char*, DispatchGroup::members_max> from;
  std::size_t bytes = 0;
  for (unsigned to = 0; to < group_.members_.size(); ++to) {
    std::string& replies = group_.way(number_, to).parcels[oldest_].replies;
    bytes += replies.size();
    replies.append(cache_line_bytes, '\0');  // to be read
    from[to] = replies.data();
  }
  char* const begin = out.reserve(bytes + cache_line_bytes);
  char* to = begin;
  for (const std::uint8_t owner : flight.owners) {
    const std::size_t reply = reply_bytes(from[owner]);
    copy_roughly(to, from[owner], reply);
    from[owner] += reply;
    to += reply;
  }
  TD_ASSERT(static_cast<std::size_t>(to - begin) == bytes);
  out.commit(bytes);
  const Answered answered{flight.owners.size(), flight.received_ticks};
  for (unsigned member = 0; member < group_.members_.size(); ++member)
    group_.way(number_, member).parcels[oldest_].state.store(Parcel::State::empty, std::memory_order_relaxed);
  oldest_ = (oldest_ + 1) % DispatchGroup::flights_max;
  --in_flight_;
  return answered;
}

}  // namespace tandem::bench
