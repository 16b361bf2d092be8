// RD prefetches the values of the strip's hits, so that WR copies from the cache. In a device plan a buffer of the
// device has the values instead.
#pragma once
#include "task/context.hpp"
#include "task/strip_state.hpp"

namespace tandem::task {

void read_value(Batch& batch, const StripState& state) noexcept;

}  // namespace tandem::task
