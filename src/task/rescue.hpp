// Items of a page that is to change class, copied to free slots of the class that they are in.
#pragma once
#include <cstddef>
#include <span>

#include "task/context.hpp"

namespace tandem::task {

// Gives each of the items that is still good another slot of its class, as long as the class has free ones without a
// new page: key, value, times, marks and CAS id stay. Those go from `items`, which is shortened; what is left found no
// slot, has expired, or is being rewritten. Returns how many were copied. REQUIRES: inside the epoch in which they were
// found, no Guard held, and their page is closed.
std::size_t rescue(Context& context, std::span<Location>& items) noexcept;

}  // namespace tandem::task
