#include "placement/mirrored/replica-inl.hpp"
#include "placement/mirrored/replica_rest-inl.hpp"

namespace tandem {

std::string_view name_of(ReplicaState state) noexcept {
  switch (state) {
    case ReplicaState::absent:
      return "absent";
    case ReplicaState::uploading:
      return "uploading";
    case ReplicaState::current:
      return "current";
    case ReplicaState::leaving:
      return "leaving";
    case ReplicaState::resting:
      return "resting";
    case ReplicaState::returning:
      return "returning";
    case ReplicaState::lost:
      return "lost";
  }
  return "unknown";
}

std::string_view name_of(ReplicaAbsence absence) noexcept {
  switch (absence) {
    case ReplicaAbsence::not_started:
      return "not started";
    case ReplicaAbsence::stopped:
      return "stopped";
    case ReplicaAbsence::rests:
      return "rests: too much is written for what it answers";
    case ReplicaAbsence::out_of_memory:
      return "out of device memory";
    case ReplicaAbsence::failures:
      return "the device's work failed";
  }
  return "unknown";
}

template class BasicReplica<ReplicaRules, ReplicaLog>;

}  // namespace tandem
