// RD: brings the values of the strip's hits near, so that WR copies from the cache. On a device plan the values come in
// a buffer of the device instead.
#pragma once
#include "task/context.hpp"
#include "task/strip_state.hpp"

namespace tandem::task {

void read_value(Batch& batch, const StripState& state) noexcept;

}  // namespace tandem::task
