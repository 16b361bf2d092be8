#include "bench/workload/stream.hpp"

#include <bit>
#include <stdexcept>

namespace tandem::workload {
namespace {

constexpr std::uint64_t never = ~std::uint64_t{0};

}  // namespace

// Each step is a bijection of the words of `bits` bits, the minimum for n; a result outside [0, n) goes through them
// again (cycle walking, Black and Rogaway, CT-RSA 2002), fewer than two rounds on average.
std::uint64_t scatter(std::uint64_t rank, std::uint64_t n, std::uint64_t seed) noexcept {
  const auto bits = static_cast<unsigned>(std::bit_width(n - 1));
  if (bits == 0) return 0;
  const std::uint64_t mask = never >> (64 - bits);
  const unsigned half = (bits + 1) / 2;
  const std::uint64_t offset = mix64(seed + 0x632be59bd9b4e019U);
  std::uint64_t x = rank;
  do {
    x = (x + offset) & mask;
    x = (x ^ (x >> half)) * 0xbf58476d1ce4e5b9U & mask;
    x = (x ^ (x >> half)) * 0x94d049bb133111ebU & mask;
    x ^= x >> half;
  } while (x >= n);
  return x;
}

Stream::Stream(const Spec& spec, std::uint32_t index, std::uint32_t count)
    : spec_(spec), random_(mix64(spec.seed + 0x9e3779b97f4a7c15U) ^ index), first_(index), step_(count) {
  validate(spec);
  if (index >= count) throw std::invalid_argument("stream: the index must be below the count");
  if (spec.popularity == Popularity::zipf || spec.popularity == Popularity::latest)
    zipf_.emplace(spec.keys, spec.theta);
  position_ = first_ % spec.keys;
  until_shift_ = spec.shift_ops != 0 ? spec.shift_ops : never;
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t k = 0; k < op_kind_count; ++k) {
    sum += spec.mix.share[k];
    kind_limit_[k] = static_cast<std::uint64_t>(sum * 0x1p53);
    if (spec.mix.share[k] > 0) last = k;
  }
  for (std::size_t k = last; k < op_kind_count; ++k) kind_limit_[k] = never;
}

Op Stream::next() noexcept {
  if (until_shift_ != never) {
    if (until_shift_ == 0) {
      until_shift_ = spec_.shift_ops;
      shifted_ = (shifted_ + spec_.shift_keys) % spec_.keys;
    }
    --until_shift_;
  }
  Op op{.kind = draw_kind(), .key = 0};
  if (op.kind == OpKind::insert) {
    op.key = inserted_key(inserted_++);
    return op;
  }
  op.key = draw_key();
  if (op.kind == OpKind::scan) {
    const std::uint64_t lengths = std::uint64_t{spec_.scan_keys_max} - spec_.scan_keys_min + 1;
    op.scan_keys = spec_.scan_keys_min + static_cast<std::uint32_t>(random_.below(lengths));
  }
  return op;
}

OpKind Stream::draw_kind() noexcept {
  const std::uint64_t bits = random_.next() >> 11;
  std::size_t k = 0;
  while (bits >= kind_limit_[k]) ++k;
  return static_cast<OpKind>(k);
}

std::uint64_t Stream::draw_key() noexcept {
  switch (spec_.popularity) {
    case Popularity::uniform:
      return random_.below(spec_.keys);
    case Popularity::zipf: {
      std::uint64_t rank = zipf_->draw(random_) + shifted_;
      if (rank >= spec_.keys) rank -= spec_.keys;
      return scatter(rank, spec_.keys, spec_.seed);
    }
    case Popularity::sequential: {
      const std::uint64_t key = position_;
      position_ += step_;
      if (position_ >= spec_.keys) position_ = first_ % spec_.keys;
      return key;
    }
    case Popularity::latest: {
      const std::uint64_t back = zipf_->draw(random_);
      return back < inserted_ ? inserted_key(inserted_ - 1 - back) : spec_.keys - 1 - (back - inserted_);
    }
  }
  return 0;
}

}  // namespace tandem::workload
