#include "placement/mirrored/replica_log-inl.hpp"

namespace tandem {

template class BasicReplicaLog<ReplicaLogRules>;

}  // namespace tandem
