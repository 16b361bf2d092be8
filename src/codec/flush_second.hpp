// When a delayed flush_all takes effect.
#pragma once
#include <cstdint>

#include "base/clock.hpp"

namespace tandem::codec {

// As in memcached, one second before the time that the client named. at_s: that time, 0 for at once. REQUIRES: at_s is
// not Clock::already_expired.
constexpr std::uint32_t flush_second(std::uint32_t at_s) noexcept { return at_s == 0 ? 0 : at_s - 1; }

}  // namespace tandem::codec
