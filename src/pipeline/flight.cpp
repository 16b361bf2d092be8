#include "pipeline/flight.hpp"

#include <algorithm>
#include <bit>

#include "base/hash.hpp"
#include "pipeline/schedulers.hpp"

namespace tandem {
namespace {

using Steady = std::chrono::steady_clock;

}  // namespace

Flight::Flight(EpochDomain& epochs, std::vector<std::unique_ptr<DevicePart>> parts, std::uint32_t capacity,
               std::uint64_t input_bytes)
    : parts_(std::move(parts)),
      shard_bits_(parts_.empty() ? 0 : static_cast<std::uint32_t>(std::bit_width(parts_.size()) - 1)),
      batch_(capacity, input_of(parts_, input_bytes), columns_of(parts_)) {
  if (parts_.empty()) return;
  TD_ASSERT(std::has_single_bit(parts_.size()) && parts_.size() <= shards_max);
  epoch_.emplace(epochs);
}

InputArena Flight::input_of(const std::vector<std::unique_ptr<DevicePart>>& parts, std::uint64_t bytes) {
  if (parts.empty()) return bytes != 0 ? InputArena(bytes) : InputArena();
  return {parts[0]->input_.data(), parts[0]->input_.count()};
}

ColumnMemory Flight::columns_of(const std::vector<std::unique_ptr<DevicePart>>& parts) noexcept {
  if (parts.size() != 1) return {};
  return {parts[0]->fingerprints_.data(), parts[0]->locations_.data()};
}

bool Flight::is_with_schedulers() const noexcept {
  return std::ranges::any_of(parts_, [](const auto& part) { return part->is_with_scheduler(); });
}

bool Flight::is_done() const noexcept {
  return std::ranges::all_of(
      parts_, [](const auto& part) { return !part->has_queries() || part->state() == DevicePart::State::done; });
}

void Flight::begin(const Schedulers& schedulers) noexcept {
  TD_ASSERT(state_ == State::filling && has_devices());
  scatter();
  depart(schedulers);
}

// Submits the parts that have something to do.
void Flight::depart(const Schedulers& schedulers) noexcept {
  epoch_->enter();
  state_ = State::searching;
  waiting_ = {Steady::now()};
  for (std::size_t s = 0; s < parts_.size(); ++s) {
    if (parts_[s]->has_queries()) schedulers[s].submit(*parts_[s]);
  }
}

void Flight::begin_frames(const Schedulers& schedulers, FrameAnswers answers, bool cas) noexcept {
  TD_ASSERT(state_ == State::filling && frames() != nullptr);
  DevicePart& part = *parts_[0];
  part.query_count_.store(1, std::memory_order_relaxed);  // some: how many they are the device finds out
  part.asks_frames_.store(true, std::memory_order_relaxed);
  part.answers_.store(answers, std::memory_order_relaxed);
  part.cas_.store(cas, std::memory_order_relaxed);
  asks_frames_ = true;
  depart(schedulers);
}

void Flight::stay_here() noexcept {
  batch_.leave_found();
  state_ = State::host;
}

bool Flight::look(const Schedulers& schedulers) noexcept {
  if (!is_with_schedulers()) return true;
  if (TD_UNLIKELY(waiting_.is_late(Steady::now(), schedulers.patience()))) {
    for (std::size_t s = 0; s < parts_.size(); ++s) {
      if (parts_[s]->is_with_scheduler()) schedulers[s].take_back(*parts_[s]);
    }
  }
  return !is_with_schedulers();
}

void Flight::land() {
  if (state_ == State::host) return;
  TD_ASSERT(state_ == State::searching || state_ == State::let_go);
  const bool is_lost = std::ranges::any_of(parts_, [](const auto& p) { return p->state() == DevicePart::State::lost; });
  const bool is_found = state_ == State::searching && is_done();
  has_frames_ = is_found && asks_frames_;
  const DeviceResults found = is_found && !asks_frames_ ? gather() : DeviceResults{};
  if (is_lost) lose_parts();
  state_ = is_found ? State::found : State::host;
  if (!is_found || asks_frames_) return batch_.leave_found();
  batch_.found = found;
}

void Flight::let_go() noexcept {
  if (!epoch_ || !epoch_->active()) return;
  epoch_->exit();
  if (state_ == State::searching) {
    state_ = State::let_go;
  } else {
    state_ = State::host;
    has_frames_ = false;
    batch_.leave_found();
  }
}

void Flight::end() noexcept {
  if (epoch_ && epoch_->active()) epoch_->exit();
  batch_.clear();
  for (const auto& part : parts_) {
    part->state_.store(DevicePart::State::filling, std::memory_order_relaxed);
    part->asks_frames_.store(false, std::memory_order_relaxed);
  }
  if (FrameColumns* const columns = frames(); columns != nullptr) columns->clear();
  asks_frames_ = has_frames_ = false;
  state_ = State::filling;
}

std::vector<std::unique_ptr<DevicePart>> Flight::take_parts() noexcept {
  return std::move(parts_.empty() ? lost_ : parts_);
}

// An abandoned device may still write to its columns: they are no longer used.
void Flight::lose_parts() {
  if (shard_bits_ == 0) batch_.use_own_columns();
  lost_ = std::move(parts_);
  parts_.clear();
}

void Flight::describe(std::uint64_t hash_seed) noexcept {
  const Query* const queries = batch_.queries();
  Fingerprint* const fingerprints = batch_.fingerprints();
  const std::uint32_t end = device_end();
  for (std::uint32_t i = 0; i < end; ++i) {
    const Query& q = queries[i];
    const bool has_key = TD_LIKELY(q.opcode != Opcode::control && q.opcode != Opcode::nothing);
    fingerprints[i] = has_key ? fingerprint_of(q.key, q.key_bytes, hash_seed) : Fingerprint{1, 0};
  }
}

// Writes the queries for the parts' devices into their columns. REQUIRES: the queries are described.
void Flight::scatter() noexcept {
  struct Column {
    Fingerprint* fingerprints = nullptr;
    std::uint32_t filled = 0;
  };
  std::array<Column, shards_max> columns{};
  for (std::size_t s = 0; s < parts_.size(); ++s) columns[s].fingerprints = parts_[s]->fingerprints_.data();
  const std::uint32_t end = device_end();
  const Fingerprint* const fingerprints = batch_.fingerprints();
  if (shard_bits_ == 0) {
    columns[0].filled = end;
  } else {
    for (std::uint32_t i = 0; i < end; ++i) {
      const Shard shard{Shard::number_of(fingerprints[i], shard_bits_), shard_bits_};
      Column& column = columns[shard.number];
      column.fingerprints[column.filled++] = shard.local(fingerprints[i]);
    }
  }
  for (std::size_t s = 0; s < parts_.size(); ++s)
    parts_[s]->query_count_.store(columns[s].filled, std::memory_order_relaxed);
}

// Collects the parts' results in the batch's columns.
DeviceResults Flight::gather() noexcept {
  DeviceResults found{.end = device_end(), .whole = true};
  for (std::size_t s = 0, searched = 0; s < parts_.size(); ++s) {
    const DevicePart& part = *parts_[s];
    if (!part.has_queries()) continue;
    // Launches share one numbering: what has not changed since the oldest one has not changed since any.
    const std::uint32_t launch = part.launch_.load(std::memory_order_relaxed);
    if (searched++ == 0 || static_cast<std::int32_t>(launch - found.launch) < 0) found.launch = launch;
    found.whole &= part.whole_.load(std::memory_order_relaxed);
  }
  if (shard_bits_ != 0) gather_columns();
  return found;
}

// Collects the results of several parts, in the order of the batch's queries.
void Flight::gather_columns() noexcept {
  std::array<const Location*, shards_max> found{};
  for (std::size_t s = 0; s < parts_.size(); ++s) found[s] = parts_[s]->locations_.data();
  const std::uint32_t end = device_end();
  const Fingerprint* const fingerprints = batch_.fingerprints();
  Location* const locations = batch_.locations();
  for (std::uint32_t i = 0; i < end; ++i) {
    locations[i] = *found[Shard::number_of(fingerprints[i], shard_bits_)]++;
  }
}

}  // namespace tandem
