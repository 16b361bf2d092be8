// The engine's memory file: resuming from it, saving to it, and failed writes to its disk.
#include <system_error>

#include "engine/engine.hpp"

namespace tandem {

// Resumes time, CAS ids and flushes where the previous process stopped.
HeapRecovery::Rules Engine::resume() {
  SavedState& saved = file_->saved();
  // A file of a process that was killed before its first save has no items.
  if (const StoreTime time = saved.clock.load(); time.store_ns != 0) clock_.resume(time);

  const std::uint64_t cas_end = saved.cas_reserved.load(std::memory_order_relaxed);
  cas_first_ = cas_end;
  const std::uint64_t flush = saved.flush.load(std::memory_order_relaxed);
  flush_cas_first_ = saved::FlushCas::get(flush);
  const std::uint64_t due = saved.flush_due.load(std::memory_order_relaxed);
  flush_number_ = saved::FlushNumber::get(due);
  if (flush_number_ != saved::FlushNumber::get(flush)) {
    const auto due_s = static_cast<std::uint32_t>(saved::DueS::get(due));
    if (due_s > clock_.now_s()) {
      flush_due_s_.store(due_s, std::memory_order_relaxed);
    } else {
      flush_cas_first_ = cas_first_++;  // it became due between the processes
      saved.reserve_cas(cas_first_);
      saved.flush.store(saved::FlushCas::put(flush_number_, flush_cas_first_), std::memory_order_relaxed);
    }
  }
  return {.now_s = clock_.now_s(), .flush_cas = flush_cas_first_, .cas_end = cas_end};
}

// The seed of the process before, if it has left items.
void Engine::keep_seed() noexcept {
  std::atomic<std::uint64_t>& seed = file_->saved().hash_seed;
  const std::uint64_t before = seed.load(std::memory_order_relaxed);
  if (before != 0 && file_->has_items()) options_.hash_seed = before;
  seed.store(options_.hash_seed, std::memory_order_relaxed);
}

void Engine::save_clock() noexcept { file_->saved().clock.store(clock_.moment()); }

// After an orderly end no ids are lost.
void Engine::save_in_order() noexcept {
  if (!file_) return;
  file_->saved().cas_reserved.store(shared_->cas_next.load(std::memory_order_relaxed), std::memory_order_relaxed);
  save_clock();
}

// Items that could not be written may be read back as old content, so all items are flushed.
void Engine::drop_unwritten() noexcept {
  const int error = file_->lost_writes();
  if (error == 0) return;
  is_file_failed_.store(true, std::memory_order_relaxed);
  {
    const std::lock_guard lock(flush_mutex_);
    flush_now();
  }
  // A failing disk fails repeatedly: the log is rate-limited.
  constexpr std::uint32_t say_again_s = 60;
  const std::uint32_t now_s = clock_.now_s();
  if (!options_.warn || (unwritten_said_s_ != 0 && now_s < unwritten_said_s_ + say_again_s)) return;
  unwritten_said_s_ = now_s;
  try {
    options_.warn("memory file " + file_->path() + ": cannot be written: " + std::generic_category().message(error) +
                  "; all items are dropped");
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the items are dropped even if logging fails
  }
}

// Once: from then on the store does without more pages.
void Engine::say_no_room() noexcept {
  if (is_no_room_said_ || heap_->file_refusals() == 0 || !options_.warn) return;
  is_no_room_said_ = true;
  constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
  try {
    options_.warn("memory file " + file_->path() +
                  ": no room for another page: " + std::generic_category().message(heap_->file_error()) +
                  "; the store stays at " + std::to_string(budget_.used_bytes() / mebibyte) + " of " +
                  std::to_string(budget_.limit_bytes() / mebibyte) + " MiB");
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it may be said at another time
    is_no_room_said_ = false;
  }
}

}  // namespace tandem
