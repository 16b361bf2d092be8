#include "mix.hpp"

#include "values.hpp"

namespace tandem::record {

std::vector<Operation> Mix::burst() {
  ++bursts_;
  if (options_.flush_every != 0 && bursts_ % options_.flush_every == 0) {
    std::vector<Operation> alone(1);
    alone[0].kind = Kind::flush;
    return alone;
  }
  const bool large = options_.large_burst_max != 0 && random_() % 16 == 0;
  std::vector<Operation> all(1 + random_() % (large ? options_.large_burst_max : options_.burst_max));
  const std::uint64_t generation = hot_.generation(all.size());
  if (generation != generation_) cas_.clear();
  generation_ = generation;
  const bool reads_alone = percent(15);  // a get of several keys
  for (Operation& o : all) {
    if (percent(options_.ballast_percent)) {
      draw_ballast(o);
      continue;
    }
    if (options_.scan_percent != 0 && percent(options_.scan_percent)) {
      draw_scan(o);
      continue;
    }
    const std::uint64_t i = random_() % options_.hot_keys;
    const bool old = generation != 0 && percent(options_.old_percent);
    o.key = HotKeys::name(old ? random_() % generation : generation, i);
    if (!reads_alone) draw_hot(o, i % 2 != 0);
  }
  return all;
}

void Mix::draw_hot(Operation& o, bool numbers) {
  const std::uint64_t dice = random_() % 100;
  o.kind = dice < 38   ? Kind::get
           : dice < 54 ? Kind::set
           : dice < 58 ? Kind::exchange
           : dice < 66 ? Kind::add
           : dice < 69 ? Kind::replace
           : dice < 75 ? Kind::remove
           : dice < 78 ? Kind::take
           : dice < 86 ? Kind::cas
           : dice < 94 ? (numbers ? Kind::increment : Kind::append)
           : dice < 97 ? (numbers ? Kind::decrement : Kind::prepend)
           : dice < 99 ? Kind::touch
                       : Kind::increment;  // also of what is no number
  if (options_.touch_percent != 0 && percent(options_.touch_percent)) o.kind = Kind::touch;
  if (o.kind == Kind::cas) {
    const auto seen = cas_.find(o.key);
    if (seen == cas_.end()) {
      o.kind = Kind::get;
      return;
    }
    o.expected = seen->second;
  }
  if (o.kind == Kind::increment || o.kind == Kind::decrement) o.delta = 1 + random_() % 9;
  draw_value(o, numbers);
}

// A key of one's own: written, mostly once, and looked at later.
void Mix::draw_ballast(Operation& o) {
  const bool fresh = ballast_.empty() || percent(60);
  if (fresh) {
    const std::string own = "b" + std::to_string(client_) + "." + std::to_string(ballast_.size());
    const bool between = options_.scan_percent != 0;
    ballast_.push_back(between ? HotKeys::name(generation_, random_() % options_.hot_keys) + own : own);
  }
  o.key = fresh ? ballast_.back() : ballast_[random_() % ballast_.size()];
  if (!fresh) {
    const std::uint64_t dice = random_() % 100;
    o.kind = dice < 80 ? Kind::get : dice < 90 ? Kind::set : Kind::remove;
  } else {
    o.kind = percent(50) ? Kind::set : Kind::add;
  }
  draw_value(o, false);
}

Operation Mix::scan_of(std::uint64_t generation, std::uint64_t first, std::uint64_t count, bool reverse,
                       std::uint32_t limit) {
  Operation o;
  o.kind = Kind::scan;
  o.key = HotKeys::group(generation);
  o.scan = {.begin = HotKeys::name(generation, first),
            .end = HotKeys::name(generation, first + count),
            .whole = false,
            .reverse = reverse,
            .limit = limit};
  o.value = (reverse ? "down/" : "up/") + o.scan.begin + "/" + o.scan.end;
  return o;
}

// Of all keys of a group, or from one of them up to another; seldom so few that ballast alone fills the reply.
void Mix::draw_scan(Operation& o) {
  const bool old = generation_ != 0 && percent(options_.old_percent);
  const std::uint64_t generation = old ? random_() % generation_ : generation_;
  std::uint64_t first = 0, count = options_.hot_keys;
  if (percent(40)) {
    first = random_() % options_.hot_keys;
    count = 1 + random_() % (options_.hot_keys - first);
  }
  const bool reverse = percent(25);
  o = scan_of(generation, first, count, reverse, percent(10) ? 1 + static_cast<std::uint32_t>(random_() % 40) : 1024);
  o.scan.whole = count == options_.hot_keys;
}

void Mix::draw_value(Operation& o, bool number) {
  const bool stores = o.kind == Kind::set || o.kind == Kind::add || o.kind == Kind::replace || o.kind == Kind::cas ||
                      o.kind == Kind::exchange;
  if (stores || o.kind == Kind::append || o.kind == Kind::prepend) {
    const std::uint64_t id = ++values_ * options_.clients + client_;
    // Numbers lie so far apart that increments of one do not come to the next.
    o.value = number ? std::to_string(id * 1'000'000) : piece_name(id);
    o.bytes = number ? o.value : piece_bytes(id, value_bytes());
    if (percent(options_.rewrite_percent)) draw_rewritten_value(o, number, id);
  }
  if ((stores || o.kind == Kind::touch) && percent(options_.expiry_percent))
    o.ttl_s = 1 + static_cast<std::uint32_t>(random_() % 3);
  // Long times are far from each other: what is left of one says which operation it is from.
  if ((stores || o.kind == Kind::touch) && o.ttl_s == 0 && details_() % 2 == 0 && options_.details != 0)
    o.ttl_s = 3000 + 20 * static_cast<std::uint32_t>(details_() % 100'000);
  if (stores && details_() % 2 == 0 && options_.details != 0) o.flags = static_cast<std::uint32_t>(details_());
}

// Of one of two lengths in one size class: sets of the same rewrite the item, of the other one they go beside it.
void Mix::draw_rewritten_value(Operation& o, bool number, std::uint64_t id) {
  const std::size_t length = percent(80) ? 48 : 50;
  if (number) {
    o.bytes.resize(length, ' ');  // as memcached pads a number that has become shorter
    return;
  }
  const std::size_t around = piece_bytes(id, 10).size() - 10;  // of lengths of two digits
  o.bytes = piece_bytes(id, static_cast<std::uint32_t>(length - around));
}

std::uint32_t Mix::value_bytes() {
  std::uint32_t most = options_.value_bytes_max;
  if (options_.value_sizes != 0) return most >> 3 * (random_() % options_.value_sizes);
  while (most > 16 && random_() % 3 == 0) most /= 4;
  return static_cast<std::uint32_t>(random_() % (most + 1));
}

void Mix::take(const std::vector<Operation>& answered) {
  for (const Operation& o : answered) {
    if (o.cas != 0 && o.key[0] == 'h' && o.kind != Kind::scan) cas_[o.key] = o.cas;
  }
}

}  // namespace tandem::record
