// Clients on threads of their own, and what becomes of what they ask for.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "history.hpp"
#include "mix.hpp"
#include "target.hpp"

namespace tandem::record {

struct RecordingOptions {
  MixOptions mix;
  std::uint64_t operations = 20'000;
  std::uint32_t seconds = 60;           // at most
  std::uint32_t abandon_per_mille = 0;  // bursts whose connection ends before their answers
  std::uint32_t think_us = 0;           // between two bursts of a client, on average
  std::uint32_t move_every_us = 0;      // a page to another class
  std::uint32_t fault_every_us = 0;     // of a device
};

// The histories of all clients, one after the other; the last is of what everybody has forgotten: it must still be
// there. Throws what a client throws.
std::vector<std::vector<Operation>> record(const RecordingOptions& options, Target& target);

}  // namespace tandem::record
