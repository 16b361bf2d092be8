// Pages from one class to another, and back to the budget: what lies in them is evicted.
#pragma once
#include "task/context.hpp"

namespace tandem::task {

// Takes a page from the class that can best spare it, evicting its items, and gives it to class `to` (or, for
// huge_class, to the budget); or evicts a huge item, whose pages go to the budget. Returns how many pages there are to
// have; 0: none, or something holds it that does not end soon. Waits for the batches in flight. REQUIRES: no epoch.
std::uint64_t move_page(Context& context, SizeClass to, Heap::DonorRule rule) noexcept;
// The same with a page of class `from`, whatever that class makes of its pages, if it has more than one.
bool move_page(Context& context, SizeClass from, SizeClass to) noexcept;

// The same with what Heap::pick_donor() named.
std::uint64_t move_from(Context& context, const Heap::Donor& donor, SizeClass to) noexcept;

}  // namespace tandem::task
