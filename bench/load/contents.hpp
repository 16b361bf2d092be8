// The bytes of keys and values: from a workload's key space or a trace.
#pragma once
#include <cstdint>
#include <string_view>

#include "bench/workload/keys.hpp"
#include "bench/workload/trace.hpp"

namespace tandem::load {

// In a key space the values of a key have one length. In a trace they may have any: a value is right if it is a prefix
// of its key's bytes. Thread safety: immutable; the referenced objects must live as long.
class Contents {
 public:
  explicit Contents(const workload::KeySpace& keys) : keys_(&keys) {}
  explicit Contents(const workload::Trace& trace) : trace_(&trace) {}

  bool has_known_lengths() const noexcept { return trace_ == nullptr; }
  std::uint32_t key_bytes(std::uint64_t key) const noexcept {
    return keys_ != nullptr ? keys_->key_bytes(key) : static_cast<std::uint32_t>(trace_->key(number(key)).size());
  }
  char* write_key(std::uint64_t key, char* out) const noexcept {
    if (keys_ != nullptr) return keys_->write_key(key, out);
    const std::string_view bytes = trace_->key(number(key));
    return out + bytes.copy(out, bytes.size());
  }
  bool is_key(std::uint64_t key, std::string_view bytes) const noexcept {
    return keys_ != nullptr ? keys_->is_key(key, bytes) : trace_->key(number(key)) == bytes;
  }
  // nullptr: the keys are a trace's.
  const workload::KeySpace* key_space() const noexcept { return keys_; }
  // REQUIRES: known lengths.
  std::uint32_t value_bytes(std::uint64_t key) const noexcept { return keys_->value_bytes(key); }
  // `bytes`: value_bytes(key) if lengths are known.
  char* write_value(std::uint64_t key, std::uint32_t bytes, char* out) const noexcept {
    return keys_ != nullptr ? keys_->write_value(key, out) : workload::Trace::write_value(number(key), bytes, out);
  }
  bool is_value(std::uint64_t key, std::string_view bytes) const noexcept {
    return keys_ != nullptr ? keys_->is_value(key, bytes) : workload::Trace::is_value(number(key), bytes);
  }

 private:
  static std::uint32_t number(std::uint64_t key) noexcept { return static_cast<std::uint32_t>(key); }

  const workload::KeySpace* keys_ = nullptr;
  const workload::Trace* trace_ = nullptr;
};

}  // namespace tandem::load
