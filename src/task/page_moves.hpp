// Pages move between size classes, so that memory follows the traffic (memcached's slab automove).
#pragma once
#include "task/context.hpp"

namespace tandem::task {

// Takes a page from the class that can best spare it, moving or evicting its items, and gives it to class `to` (for
// huge_class, to the budget); or evicts a huge item; its pages go to the budget. Returns the number of pages gained;
// 0: no class gives a page, or the page is held for long. Waits for the batches in flight. `passed_over`: as
// Heap::pick_donor(). REQUIRES: no epoch.
std::uint64_t move_page(Context& context, SizeClass to, Heap::DonorRule rule, unsigned passed_over = 0) noexcept;
// The same with a page of class `from`, however much that class needs its pages, if it has more than one.
bool move_page(Context& context, SizeClass from, SizeClass to) noexcept;
// Empties a page of the class: its good items all go to other free slots of the class; the page stays in the class.
// False: they did not find enough, and some have moved.
bool empty_page(Context& context, SizeClass c) noexcept;
// What a class may lose by the move of one of its pages.
enum class Loses : std::uint8_t {
  nothing,  // all good items of the page find room in their class
  oldest,   // what CLOCK reaches next: newer items of the page take the slots of those
  any,      // the same as far as it can be done
};
// Empties this page and gives it to class `to`. False: it could not be emptied like that, and is open again.
bool move_this_page(Context& context, PageId page, SizeClass to, Loses loses) noexcept;

}  // namespace tandem::task
